//go:build !noasm && (amd64 || arm64)

package quant

// floatWeights converts the weights of n queries to the floats that the kernels
// read.
//
//go:noescape
func floatWeights(w *BlockWeights, n int)

// The weighing kernels, of AVX2 and NEON, take tokens, step bytes apart, and of
// the outputs of four queries, stride elements apart, or of one, 16 elements.

//go:noescape
func weightedSumF8x4x16(o *float32, stride int, w *BlockWeights, values *uint8, step, count int)

//go:noescape
func weightedSumF8x1x16(o *float32, w *BlockWeights, values *uint8, step, count int)

// weightedSumF8From weighs the elements from c on, and portably what is less than a
// step of the kernels.
func weightedSumF8From(twin portable, c int, o []float32, stride, d int, w []BlockWeights, values []uint8, count int) {
	for ; c+16 <= d; c += 16 {
		i := 0
		for ; i+4 <= len(w); i += 4 {
			weightedSumF8x4x16(&o[i*stride+c], stride, &w[i], &values[c], d, count)
		}
		for ; i < len(w); i++ {
			weightedSumF8x1x16(&o[i*stride+c], &w[i], &values[c], d, count)
		}
	}
	if c < d {
		twin.weightedSumF8Rest(c, o, stride, d, w, values, count)
	}
}
