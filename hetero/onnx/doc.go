// Package onnx computes matrix products through ONNX Runtime: a device for NPUs,
// whose drivers are reached as execution providers of that library.
//
// It is in the program only with the build tag npu. The library is then loaded
// when somebody asks for the device: from the path that [Options] or the variable
// [LibraryVariable] names, or under its usual names. A process loads one, and
// where there is none that is [ErrMissing] and no mistake. Providers are those
// that the library was built with, and plugins ([Options.Plugins]).
//
// What the device does:
//
//   - Prepare writes a graph of one product for one number of tokens (package
//     graph), hands it to the provider with weights that stay where they are, and
//     gets a session. Products with the same weights, tokens and scale share a
//     session: a prompt of any number of chunks needs no more graphs than one of a
//     single chunk. Graphs of several lengths share one packed copy of the weights.
//   - Submit puts the product into a queue, which a thread of its own works
//     through; the library reads and writes the buffers where they are. Where the
//     rows of a view do not follow each other, as in a product that is cut by rows,
//     the thread copies them, because the library's tensors know no gaps. Stats
//     count these bytes.
//   - Done is one load of a flag. An error is returned by Wait, by the next Submit
//     and by Close: after it nothing more is computed.
//   - With a limit of memory (an NPU's addresses may be short), Prepare and Attach
//     refuse what does not fit with a [hetero.MemoryError]; which products a short
//     memory should hold is schedule.Place's question.
//   - With a cache directory, what the provider made of a graph is kept in a file
//     named by all that it depends on, weights included. It is read back at the
//     next start, checked, and made anew where it is damaged. Such a graph holds its
//     weights: nothing is packed, and lengths do not share them.
//
// What was seen of it: the CPU provider, which computes everything above and
// stands for the others in tests. No NPU has been seen; docs/npu.md says what
// that leaves open.
package onnx
