// Package graph writes matrix products as ONNX models: static graphs of one
// shape, with integer weights that the runtime is handed beside the model.
//
// [Pack] puts the weights of a [hetero.Op] into the layout that the graph reads,
// outside Go's heap, and measures what rounding them costs. [Product] writes the
// graph. A model is a few hundred bytes: it names its weights and their shapes,
// but does not hold them, so that graphs of many lengths share one copy.
//
// There are two kinds of arithmetic. With [WeightOnly] the weights have 4 or 8
// bits and a scale for each 32 of a row, as they are stored, and the activations
// are floats: nothing is lost before the product. With [Integer] weights and
// activations have 8 bits, and a whole matrix of weights has one scale, which is
// what NPUs multiply fastest. Weights whose rows have one scale each keep these, as
// factors of the results. The activations have one scale as well where a
// calibration gives it ([hetero.Op.Scale]); otherwise one for each token.
//
// Only as much of ONNX is here as these graphs need.
package graph
