// Package threadpool runs CPU kernels on all cores.
//
// A [Pool] has a fixed number of workers. The forward pass calls [Pool.Run] several
// times per layer, thousands of times per second, with a few microseconds of other work
// in between. Run therefore does not allocate, and waiting workers spin for some time
// before they sleep. On a machine that is busy with other programs the spin time
// shrinks, so workers sleep early.
//
// [Pool.RunRange] splits a range of units, such as the rows of a matrix, in proportion
// to the measured speed of the workers. If one of two workers needs s times as long as
// the other, this is up to (s+1)/2 times as fast as two equal halves:
//
//	go test ./internal/threadpool -run '^$' -bench SlowCore
//
// The assignment of parts to workers is not deterministic, so results must not depend
// on it. A part writes only its own outputs, and its index determines the order of its
// sums. Results are then equal for any number of threads.
//
// [DefaultThreads] returns the number of workers for the current machine.
//
// # Reading the code
//
// Begin with [Pool.RunTask] in pool.go. park.go implements spinning and sleeping,
// ranges.go the assignment of ranges, cores.go the detection of fast cores.
package threadpool
