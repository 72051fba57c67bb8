// Package opencl computes on GPUs and other devices with an OpenCL driver.
//
// The driver is a system library, loaded at run time without a C compiler, in
// programs built with the tag gpu:
//
//	go build -tags gpu ./cmd/llmrun
//
// Such a program needs the system's dynamic loader; without the tag the program is
// static and [List] returns [ErrNotBuilt]. Without a driver, List returns
// [ErrNoDriver]. Callers treat both errors as "no device".
//
// # Overview
//
// [List] returns the devices of all drivers. [Open] opens one as a [Context] with
// an in-order queue. [Memory] is a buffer of the device, [Kernel] a function of an
// embedded program with its arguments. A [WeightMatrix] holds weights in the
// device's layout and creates the kernels that multiply them: [GEMV] for one token,
// [GEMM] for many. [Device] presents all of this as a [hetero.Device], for matmuls
// that are split between devices. The forward pass of a whole model is in package
// exec/gpupass.
//
// # Weights
//
// Quantized weights stay quantized: codes of 4 or 8 bits, separated from their
// scales by quant.SplitRow without loss. GEMM converts them to numbers. GEMV
// quantizes the token's input to 8 bits, in blocks of 32 with one scale each, as
// the CPU does, and multiplies integers with the device's dot product instruction,
// see [Dot]. Float weights are multiplied by the float input. A matrix of l
// columns and h rows is stored as [l/lp][h][lp], where lp elements fill 128 bits: each
// work item loads 128 bits at once, and neighbours load adjacent units. [Format] lists the
// layout of each type. Kernels read the codes from a buffer, or through an image
// over it, see [WeightsVariable].
//
// # Waiting
//
// Launches, [Memory.Send] and [Memory.Copy] do not wait. [Context.Finish], tickets,
// [Memory.Read] and [Memory.Write] wait, and so do the calls that create buffers
// with contents or mappings: [Context.NewWeightMatrix] and [Context.Stage].
// [Context.Stats] counts launches, copies and waits. [Context.SetTrace]
// records every command with the device's times.
//
// # Graphs
//
// [Context.Record] turns repeated launches with the same arguments into one
// command. NVIDIA's driver supports this in CUDA only: kernels compiled by its
// OpenCL are loaded into CUDA as well, and both use memory that CUDA allocated. See
// [Graphs].
package opencl
