// Package w8a8 reads and writes calibrations: what was found out about the
// activations of a model so that its matrices can be multiplied in 8-bit integers
// with one scale for all activations, as neural processors want it.
//
// A calibration is a file beside the model. It says for each input of matrices
// with which scale it is rounded, and which of its channels exceed what that scale
// can express. Of the matrices it holds the columns of all channels as floats, one
// behind the other: the model itself has rows, of which a column touches every
// one, and a column that is needed unexpectedly has to come in one read.
//
// FORMAT.md specifies the file.
package w8a8
