// Package hetero defines compute devices: the processors of one machine that can
// share the matmuls of a model.
//
// A [Device] prepares a matmul ahead of time as a [Kernel]. Submitting a kernel
// does not wait; completion is a flag that the caller polls. A [Buffer] is
// page-aligned memory that all attached devices access.
//
//   - hetero/cpu makes the CPU, or a group of its cores, a device.
//   - hetero/opencl runs GPUs through OpenCL or CUDA drivers, hetero/onnx runs
//     NPUs through ONNX Runtime.
//   - hetero/devices lists the devices of this machine.
//   - hetero/solve measures devices, splits matmuls between them and executes
//     the splits.
//   - hetero/profiles stores the measurements, hetero/rates measures the
//     machine itself.
//
// Package exec/split runs models on two devices; exec/gpupass runs whole layers on
// a GPU. The threads of the CPU are in internal/threadpool.
package hetero
