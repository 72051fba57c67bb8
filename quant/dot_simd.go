//go:build !noasm && (amd64 || arm64)

package quant

// blockKernels multiply a block of rows that fits in the second-level cache.
type blockKernels interface {
	mulBlock(y []float32, yStride int, w []float32, wStride, rows, cols int, x []float32, xStride, n int)
}

// mulPanels is MulRowsF32, a block of rows after the other: a block stays in the
// second-level cache while the tokens pass.
func mulPanels[K blockKernels](k K, twin portable, y []float32, yStride int, w []float32, wStride, rows, cols int, x []float32, xStride, n int) {
	if cols == 0 {
		twin.mulF32(y, yStride, w, wStride, rows, cols, x, xStride, n)
		return
	}
	step := panelRows(cols)
	for r := 0; r < rows; r += step {
		k.mulBlock(y[r:], yStride, w[r*wStride:], wStride, min(step, rows-r), cols, x, xStride, n)
	}
}
