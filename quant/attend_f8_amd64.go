//go:build !noasm

package quant

// floatWeightsAVX2 converts the weights of n queries to the floats that the
// kernels below read.
//
//go:noescape
func floatWeightsAVX2(w *BlockWeights, n int)

// The weighing kernels take tokens, step bytes apart, and of the outputs, stride
// elements apart, 64 elements (AVX-512) or 16 (AVX2).

//go:noescape
func weighF8x4AVX512(o *float32, stride int, w *BlockWeights, values, next *uint8, step, count int)

//go:noescape
func weighF8x1AVX512(o *float32, w *BlockWeights, values, next *uint8, step, count int)

//go:noescape
func weighF8x4AVX2(o *float32, stride int, w *BlockWeights, values *uint8, step, count int)

//go:noescape
func weighF8x1AVX2(o *float32, w *BlockWeights, values *uint8, step, count int)

func (k avx512) weighF8(o []float32, stride, d int, w []BlockWeights, values, next []uint8, count int) {
	floatWeightsAVX2(&w[0], len(w))
	c := 0
	for ; c+64 <= d; c += 64 {
		i := 0
		for ; i+4 <= len(w); i += 4 {
			weighF8x4AVX512(&o[i*stride+c], stride, &w[i], &values[c], &next[c], d, count)
		}
		for ; i < len(w); i++ {
			weighF8x1AVX512(&o[i*stride+c], &w[i], &values[c], &next[c], d, count)
		}
	}
	weighF8From(k.portable, c, o, stride, d, w, values, count)
}

func (k avx2) weighF8(o []float32, stride, d int, w []BlockWeights, values, _ []uint8, count int) {
	floatWeightsAVX2(&w[0], len(w))
	weighF8From(k.portable, 0, o, stride, d, w, values, count)
}

// weighF8From weighs the elements from c on with AVX2, and portably what is less
// than a step of it.
func weighF8From(twin portable, c int, o []float32, stride, d int, w []BlockWeights, values []uint8, count int) {
	for ; c+16 <= d; c += 16 {
		i := 0
		for ; i+4 <= len(w); i += 4 {
			weighF8x4AVX2(&o[i*stride+c], stride, &w[i], &values[c], d, count)
		}
		for ; i < len(w); i++ {
			weighF8x1AVX2(&o[i*stride+c], &w[i], &values[c], d, count)
		}
	}
	if c < d {
		twin.weighF8From(c, o, stride, d, w, values, count)
	}
}
