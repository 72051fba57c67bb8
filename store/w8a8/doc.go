// Package w8a8 reads and writes calibrations. A calibration holds the activation statistics
// that are needed to run the matmuls of a model in 8-bit integers with one fixed activation
// scale per input, as NPUs require.
//
// A calibration is a file beside the model. For each matmul input it stores the scale that
// quantizes the input and the outlier channels, whose values exceed the range of the scale.
// It also stores the columns of the matrices as contiguous floats. The outlier path
// multiplies outliers by columns; a model file stores rows, so without this copy a column
// would take one read per row.
//
// [Open] returns a [File]. Its [Index] lists the inputs, and [File.Column] reads a column.
// [Write] writes a file. FORMAT.md specifies the format.
package w8a8
