//go:build !noasm

package quant

// q4Values are the values of Q4_0's nibbles and nibbleValues those of plain
// ones, for kernels that look quants up instead of converting them.
var (
	q4Values     = [16]float32{-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7}
	nibbleValues = [16]float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
)
