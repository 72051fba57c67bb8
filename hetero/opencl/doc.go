// Package opencl computes on GPUs, and whatever else has an OpenCL driver.
//
// The driver is a library of the system that is loaded at run time, without a C
// compiler, in programs that are built with the tag gpu:
//
//	go build -tags gpu ./cmd/llmrun
//
// Such a program needs the system's dynamic loader, which the static one without
// the tag does not. Where the tag is missing [List] says so with [ErrNotBuilt], and
// where there is no driver with [ErrNoDriver]; neither is a fault.
//
// # What is here
//
// [List] shows the devices of all drivers. [Open] opens one, as a [Context] with a
// queue whose commands run in order. [Memory] is a buffer of it, [Kernel] one of
// the embedded programs with its arguments. A [Product] is a weight matrix in the
// device's layout, with the kernels that multiply it, and [Device] is all of this
// as a [hetero.Device], for products that are divided among processors. The whole
// forward pass of a model is in package exec/gpupass.
//
// # Weights
//
// Quantized weights are multiplied as they are stored: codes of 4 or 8 bits, taken
// apart by quant.SplitRow without loss. With many tokens they meet float32. One
// token's input is rounded to codes of 8 bits, in blocks of 32 with a scale each, as
// the processor does it, and both are multiplied as integers with the instruction
// that the device has for that, see [Dot]. Weights that are numbers meet float32. A
// matrix of l columns and h rows lies as [l/lp][h][lp], where lp elements take 128
// bits: each work item loads 128 bits at once, and neighbours load what lies side
// by side. See [Format] for what each type of weights becomes. The units are read
// from a buffer, or as pixels of an image over it, see [WeightsVariable].
//
// # Waiting
//
// Launches, [Memory.Send] and [Memory.Copy] do not wait. [Context.Finish], tickets,
// [Memory.Read] and [Memory.Write] do, and so does what makes buffers that have
// contents or are mapped: [Context.NewWeightMatrix] and [Context.Stage]. [Context.Stats]
// counts launches, copies and waits; with a trace recorder, [Context.SetTrace], every
// command is shown with the times that the device gives it.
//
// # Graphs
//
// [Context.Record] makes one command of launches that come again and again with the same
// arguments. NVIDIA's driver has such for CUDA only: kernels that its OpenCL has compiled
// are loaded there as well, and both use memory that CUDA has made. See [Graphs].
package opencl
