//go:build !noasm

package quant

import "unsafe"

// avx2 is the path of processors with AVX2, FMA and F16C. What it has no
// kernel for comes from the fused portable twin.
type avx2 struct{ elementwise }

func newAVX2() avx2 { return avx2{elementwise{quantizer{portable{fused}}}} }

func (avx2) name() string { return "avx2" }

// avxVNNI is avx2 with the 256-bit integer multiply-adds of AVX-VNNI. The name is the same:
// LLMRUN_CPU=avx2 selects what the processor has of both.
type avxVNNI struct{ avx2 }

//go:noescape
func weightedSumF32x4AVX2(o *float32, oStride int, p *float32, pStride int, v *float32, vStride, tokens, d int)

//go:noescape
func weightedSumF32x1AVX2(o, p, v *float32, vStride, tokens, d int)

func (k avx2) dot(a, b []float32 /* [n] */) float32 {
	// The four-row kernel with four times the same row: a single sum is bound
	// by the latency of its additions, so the others cost little.
	var out [4]float32
	gemvF32AVX2(&out, unsafe.SliceData(a), 0, unsafe.SliceData(b), len(a))
	return out[0]
}

func (k avx2) mulBlock(y []float32, yStride int, w []float32, wStride, rows, cols int, x []float32, xStride, n int) {
	b := 0
	for ; rows >= 2 && b+2 <= n; b += 2 {
		tileAVX2(&y[b*yStride], yStride, &w[0], wStride, rows, &x[b*xStride], xStride, cols)
	}
	for ; b < n; b++ {
		k.gemvF32(y[b*yStride:][:rows], w, wStride, x[b*xStride:][:cols])
	}
}

func (k avx2) weightedSum(o []float32, oStride int, p []float32, pStride int, v []float32, vStride, tokens, d, n int) {
	i := 0
	for ; i+4 <= n; i += 4 {
		const width = 16 // elements in the kernel's registers
		for c := 0; c < d; c += width {
			weightedSumF32x4AVX2(&o[i*oStride+c], oStride, &p[i*pStride], pStride, &v[c], vStride, tokens, min(width, d-c))
		}
	}
	for ; i < n; i++ {
		const width = 32
		for c := 0; c < d; c += width {
			weightedSumF32x1AVX2(&o[i*oStride+c], &p[i*pStride], &v[c], vStride, tokens, min(width, d-c))
		}
	}
}

func (k avx2) maxOf(p []float32 /* [n] */) float32 {
	whole := len(p) / 8 * 8
	return max(maxAVX2(unsafe.SliceData(p), whole), k.portable.maxOf(p[whole:]))
}
