// Package synth writes models of random weights: GGUF files that have the
// shape, the tensor types and the rotary settings of published models, and
// whose weights mean nothing. Speed and memory depend on the former alone, so
// that anyone can measure any engine without a download.
//
// The files are meant for other engines too. Tensors are named, and quantized
// in the mixes, as the usual converter and quantizer do it. The vocabulary has
// the right number of tokens: single bytes, three merges, and fillers.
//
// Weights are drawn so that a model computes sane numbers: every product of a
// matrix with a normalized vector has about the variance 1. Quantized tensors
// are not quantized from anything: their codes are random bits, and their
// scales are set for that variance. The same options give the same bytes.
package synth
