// Package cpu makes the engine's own kernels a [hetero.Device]: all threads of the
// CPU, or a group of its cores, such as the fast and the slow cores of a phone. A
// plan can then split a matmul between them.
//
// A device has a goroutine that takes matmuls from a queue and runs each on its own
// [threadpool.Pool], with the same kernels as the forward pass: integer kernels for
// quantized weights, which Prepare packs into tiles, and float kernels for float
// weights.
package cpu
