// Package calib turns observed matmul inputs into calibration data: the importance of each
// input for quantization, and the activation scales and outlier channels for W8A8. Package
// exec runs the model and feeds its inputs to the collectors here.
package calib
