// Package synth writes models with random weights: GGUF files with the shape, the tensor
// types and the RoPE parameters of published models. Speed and memory do not depend on the
// values of the weights, so anyone can measure any engine without a download.
//
// Other engines can load the files too. Tensors have the names that the usual converter
// writes and the types that the usual quantizer chooses. The vocabulary has the right
// number of tokens: single bytes, three merges and fillers.
//
// The weights give sane activations: the product of a matrix with a normalized vector has
// variance of about 1. Quantized tensors are not quantized from floats: their codes are
// random bits, and their scales are set for this variance. Equal options give equal bytes.
//
// [Shapes] lists the models and [Mixes] the quantizations. [Write] writes a file from
// [Options].
package synth
