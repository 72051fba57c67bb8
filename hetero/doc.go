// Package hetero is where arithmetic runs.
//
// The engine runs on one device, the CPU, and its threads: [Workers] divides a task
// into parts and does them on all cores. The forward pass calls [Workers.Run]
// several times for every layer, thousands of times a second, with a few
// microseconds of other work in between. So a run allocates nothing, waiters
// watch for some time before they sleep, and nothing ever spins without end: on
// a machine that is busy with other things waiters lose patience and sleep like
// everybody else.
//
// Work that can be cut anywhere, such as the rows of matrices, is divided in
// proportion to how fast the workers were: [Workers.RunRange]. With
//
//	go test ./hetero -run '^$' -bench SlowCore
//
// one sees what that gains over equal halves when one of two workers is slower:
// about (s+1)/2 for one that takes s times as long.
//
// Which worker computes which part is left to chance, and the results must not
// depend on it: a part writes only its own outputs and sums in an order that
// its own index fixes. Then the same numbers come out at any thread count.
//
// [DefaultThreads] says how many workers suit this machine.
//
// [Device], [Kernel] and [Buffer] are what other processors of the same machine
// have to offer for a product to be divided among them: kernels are prepared
// ahead, submitted without waiting and watched by a flag; buffers are a few
// pieces of memory that all devices see. hetero/cpu makes the processor, or a
// group of its cores, such a device, hetero/sim simulates phones, and
// hetero/devices knows what this machine has. hetero/solve measures devices,
// divides products and runs them; hetero/schedule orders the pieces of prompts;
// hetero/papers compares with what was published. Package
// exec/split runs models on two devices.
package hetero
