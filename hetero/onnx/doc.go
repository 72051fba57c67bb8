// Package onnx is a device for NPUs: it computes matmuls through ONNX Runtime,
// whose execution providers call the NPU drivers.
//
// It is part of the program only with the build tag npu. The library is loaded when
// the device is first opened: from the path in [Options] or in the variable
// [LibraryVariable], or under its usual names. A process loads one library. If
// there is none, Open returns [ErrMissing], which callers treat as "no device".
// Providers are built into the library or come as plugins ([Options.Plugins]).
//
// How the device works:
//
//   - Prepare writes the graph of one matmul for one number of tokens (package
//     graph), passes it to the provider with weights that stay in place, and
//     gets a session. Matmuls with the same weights, tokens and scale share a
//     session, so the number of chunks in a prompt does not matter. Graphs of
//     several lengths share one packed copy of the weights.
//   - Submit appends the matmul to a queue that a separate thread processes.
//     The library reads and writes the buffers in place. If the rows of a view
//     are not dense, as in a row split, the thread copies them, because the
//     library's tensors have no strides. Stats count these bytes.
//   - Done is one load of a flag. Wait, the next Submit and Close return the
//     errors of the work. After an error the device computes nothing more.
//   - With a memory limit (an NPU may address little memory), Prepare and
//     Attach return a [hetero.MemoryError] when the device would exceed it.
//   - With a cache directory, the device stores each prepared graph in a file.
//     The name is a hash of everything that the graph depends on, including the
//     weights. The next start loads and verifies the file, and rebuilds a
//     damaged one. A cached graph contains its weights, so the device packs
//     nothing, and graphs of several lengths do not share weights.
//
// The tests use the CPU provider in place of an NPU provider. The package has not run
// on an NPU; docs/guide/npu.md lists the open questions.
package onnx
