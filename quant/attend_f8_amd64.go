//go:build !noasm

package quant

// The kernels of AVX-512 are like those of 16 elements, for 64.

//go:noescape
func weightedSumF8x4AVX512(o *float32, stride int, w *BlockWeights, values, next *uint8, step, count int)

//go:noescape
func weightedSumF8x1AVX512(o *float32, w *BlockWeights, values, next *uint8, step, count int)

func (k avx512) weightedSumF8(o []float32, stride, d int, w []BlockWeights, values, next []uint8, count int) {
	floatWeights(&w[0], len(w))
	c := 0
	for ; c+64 <= d; c += 64 {
		i := 0
		for ; i+4 <= len(w); i += 4 {
			weightedSumF8x4AVX512(&o[i*stride+c], stride, &w[i], &values[c], &next[c], d, count)
		}
		for ; i < len(w); i++ {
			weightedSumF8x1AVX512(&o[i*stride+c], &w[i], &values[c], &next[c], d, count)
		}
	}
	weightedSumF8From(k.portable, c, o, stride, d, w, values, count)
}

func (k avx2) weightedSumF8(o []float32, stride, d int, w []BlockWeights, values, _ []uint8, count int) {
	floatWeights(&w[0], len(w))
	weightedSumF8From(k.portable, 0, o, stride, d, w, values, count)
}
