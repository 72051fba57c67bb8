//go:build !noasm

package quant

import "unsafe"

// avx512 is the path of processors with AVX-512 F, BW, VL and DQ. What it has
// no kernel for comes from the fused portable twin.
type avx512 struct{ elementwise }

func newAVX512() kernels { return avx512{elementwise{quantizer{portable{fused}}}} }

func (avx512) name() string { return "avx512" }

//go:noescape
func weightedSumF32x4AVX512(o *float32, oStride int, p *float32, pStride int, v *float32, vStride, tokens, d int)

//go:noescape
func weightedSumF32x1AVX512(o, p, v *float32, vStride, tokens, d int)

func (k avx512) dot(a, b []float32 /* [n] */) float32 {
	if len(a) == 0 {
		return 0
	}
	// The eight-row kernel with eight times the same row: a single sum is
	// bound by the latency of its additions, so the others cost nothing.
	var out [8]float32
	gemvF32AVX512(&out, &a[0], 0, &b[0], len(a))
	return out[0]
}

func (k avx512) mulBlock(y []float32, yStride int, w []float32, wStride, rows, cols int, x []float32, xStride, n int) {
	b := 0
	for ; rows >= 4 && n-b >= 2 && n >= 4; b += 4 {
		// The last tile reaches back over tokens that are already computed;
		// they get the same results again.
		b = min(b, n-4)
		tileAVX512(&y[b*yStride], yStride, &w[0], wStride, rows, &x[b*xStride], xStride, cols)
	}
	for ; b < n; b++ {
		k.gemvF32(y[b*yStride:][:rows], w, wStride, x[b*xStride:][:cols])
	}
}

func (k avx512) weightedSum(o []float32, oStride int, p []float32, pStride int, v []float32, vStride, tokens, d, n int) {
	const width = 64 // elements in the kernels' registers
	for c := 0; c < d; c += width {
		count := min(width, d-c)
		i := 0
		for ; i+4 <= n; i += 4 {
			weightedSumF32x4AVX512(&o[i*oStride+c], oStride, &p[i*pStride], pStride, &v[c], vStride, tokens, count)
		}
		for ; i < n; i++ {
			weightedSumF32x1AVX512(&o[i*oStride+c], &p[i*pStride], &v[c], vStride, tokens, count)
		}
	}
}

func (k avx512) maxOf(p []float32 /* [n] */) float32 {
	return maxAVX512(unsafe.SliceData(p), len(p))
}
