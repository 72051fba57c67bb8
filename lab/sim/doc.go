// Package sim is a SIMULATOR of phones' processors: devices that compute real
// results with plain arithmetic and charge virtual time for it. Nothing here is
// a measurement; no time of it says anything about the machine that it runs on.
//
// It exists for two things: to develop and test the profiler, the solver and the
// scheduler of [github.com/llmrun/llmrun/hetero] without a phone, and to check
// how well we understand what papers measured: [Constants] lists every number
// that goes in, with its source, and those that no source gives and were fitted.
// No ratio that a paper reports as a result is among them.
//
// How time passes: a [Machine] has one clock, several devices and one memory. A
// device works through its queue in order. Work takes as long as its arithmetic
// or its bytes, whichever is more; bytes flow at the device's own bandwidth, or,
// when several devices have work, at shares of what all reach together. The host
// is the goroutine that submits and waits: submitting, looking and sleeping move
// its clock. Whatever a device has completed by then has been computed, in the
// order of completion and not before: who reads a result without waiting for it
// gets what was there before, as on a real machine. Copies, where memory is not
// shared, are commands of the queue: they wait for the work before them, and the
// host for them.
package sim
