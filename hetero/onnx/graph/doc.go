// Package graph writes matmuls as ONNX models: static graphs of one shape, with
// quantized weights stored outside the model.
//
// [Pack] converts the weights of a [hetero.Op] to the graph's layout, outside Go's
// heap, and measures the quantization error. [Matmul] writes the graph. A model has
// a few hundred bytes: it contains names and shapes of its weights but no data, so
// that graphs of many lengths share one copy.
//
// There are two kinds of arithmetic. With [WeightOnly] the weights have 4 or 8 bits
// and a scale per 32 columns, as they are stored, and the activations are floats:
// nothing is lost before the matmul. With [Integer] weights and activations have 8
// bits, and a weight matrix has one scale, which is the fastest form on NPUs.
// Weights with one scale per row keep these as factors of the results. Activations
// have one scale too if calibration provides it ([hetero.Op.Scale]); otherwise one
// per token.
//
// The package implements only the part of ONNX that these graphs need.
package graph
