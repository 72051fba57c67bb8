// Package gpupass computes passes of models on OpenCL devices: norms, products, rotation,
// attention over keys and values in 8 bits, activations and the output matrix. Only
// the rows of the embedding are looked up by the host.
//
// A token of a generation takes five launches a layer, and one wait:
//
//	norm, queries, keys and values    one product where their types agree
//	rotation, keeping, attention      of parts of the context at the same time
//	joining the parts, output         added to the residual stream
//	norm, gate, up and activation     rows of both in turns, so that pairs meet
//	down                              added to the residual stream
//
// Arguments are set when the model is loaded; what changes from token to token is
// in a buffer that is written with the token's row. So tokens after the first of a text
// can be one command, where the driver has such, see opencl.Graphs. Prompts take chunks of many
// tokens through kernels of their own, eight launches a layer.
//
// Behind its keys and values the last layer computes only tokens from the first to
// the last whose logits are wanted: nothing for a chunk without any. Queries are
// computed for all, because they are one product with keys and values.
//
// Of a model that its memory does not hold the device computes the last layers. The
// network is then one of these layers, and what enters it is not the embedding's rows
// but what the processor made of them.
//
// Activations are float32, sums too; but the input of one token's products is
// rounded to 8 bits where weights are codes, as the processor does it, and its queries
// to 16 bits, so that they meet keys as integers. Keys and values are kept in codes of
// 8 bits with a scale for each token and head, as k8v8 of package kv, and attention
// reads them as they were stored. So tokens are those of the CPU, but for what
// rounding and the order of sums change.
package gpupass
