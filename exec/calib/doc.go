// Package calib turns observed matmul inputs into calibration data. InputPowers collects
// the importance of each input for quantization (llama.cpp's imatrix). InputMagnitudes
// collects the activation scale and the outlier channels of an input for W8A8, and
// WriteCalibration stores them in a calibration file. UsePerRowInt8 applies such a file to
// a model's weights.
//
// Package exec runs the model and passes its inputs to these collectors. Begin with
// outliers.go.
package calib
