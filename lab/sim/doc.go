// Package sim is a SIMULATOR of phones' processors. Its devices compute real results with plain
// arithmetic and charge virtual time for them. No time of this package is a measurement, and none
// describes the machine that it runs on.
//
// The package has two purposes: to develop and test the profiler, the solver and the scheduler of
// [github.com/llmrun/llmrun/hetero] without a phone, and to check the models of this project
// against the measurements of papers. [Constants] lists every input with its source, and marks the
// values that no source gives and that were fitted. No ratio that a paper reports as a result is an
// input.
//
// A simulated chip, an [SoC], has one clock, several devices and one memory. A device executes its
// queue in order. A work item takes the time of its arithmetic or of its memory traffic, whichever is
// longer. A device that uses memory alone reaches its own bandwidth; several devices share the total
// bandwidth. The host is the goroutine that submits and waits; submitting, polling and sleeping
// advance the clock. Results appear in the order of completion: a program that reads a result
// without waiting for it reads the previous contents, as on a real machine. A device without shared
// memory copies with commands of its queue: a copy waits for the work items before it, and the host waits
// for the copy.
package sim
