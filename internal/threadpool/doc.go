// Package threadpool runs the CPU's arithmetic on all cores.
//
// A [Pool] has a fixed number of workers. The forward pass calls [Pool.Run]
// several times per layer, thousands of times a second, with a few microseconds of
// other work in between. So a run does not allocate, and waiters spin for some time
// before they sleep. On a machine that is busy with other programs the spin time
// shrinks and waiters sleep early.
//
// [Pool.RunRange] cuts work that can be cut anywhere, such as the rows of a matrix,
// in proportion to the measured speed of the workers. If one of two workers takes s
// times as long as the other, that is up to (s+1)/2 times as fast as equal halves:
//
//	go test ./internal/threadpool -run '^$' -bench SlowCore
//
// The assignment of parts to workers is not deterministic, and results must not
// depend on it: a part writes only its own outputs and sums in an order that its
// index fixes. Then results are the same with any number of threads.
//
// [DefaultThreads] returns the number of workers for this machine.
package threadpool
