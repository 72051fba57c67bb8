// Package cpu makes this project's kernels a [hetero.Device]: all threads of the
// processor, or a group of its cores, such as the fast and the slow ones of a
// phone, which a plan can then divide a product between.
//
// A device has a goroutine that takes products off a queue and does each with
// its own [threadpool.Pool]. What the goroutine and its workers do is what the
// forward pass does: quantized weights lie in tiles and are multiplied in
// integers, floats are multiplied as floats. The time that passes is real.
package cpu
