//go:build !noasm

package quant

import "unsafe"

// avx2 is the path of processors with AVX2, FMA and F16C. What it has no
// kernel for comes from the fused portable twin.
type avx2 struct{ elementwise }

func newAVX2() kernels { return avx2{elementwise{quantizer{portable{fused}}}} }

func (avx2) name() string { return "avx2" }

//go:noescape
func tileAVX2(out *[4]float32, w *float32, wStride int, x *float32, xStride, cols int)

//go:noescape
func gemvF32AVX2(out *[4]float32, w *float32, wStride int, x *float32, cols int)

//go:noescape
func gemvBF16AVX2(out *[4]float32, w *byte, wStride int, x *float32, cols int)

//go:noescape
func gemvF16AVX2(out *[4]float32, w *byte, wStride int, x *float32, cols int)

//go:noescape
func weightedSumF32x4AVX2(o *float32, oStride int, p *float32, pStride int, v *float32, vStride, tokens, d int)

//go:noescape
func weightedSumF32x1AVX2(o, p, v *float32, vStride, tokens, d int)

//go:noescape
func maxAVX2(p *float32, n int) float32

//go:noescape
func expSumAVX2(p *float32, n int, shift float32) float32

//go:noescape
func siluAVX2(dst, x *float32, n int)

//go:noescape
func geluTanhAVX2(dst, x *float32, n int)

//go:noescape
func geluErfAVX2(dst, x *float32, n int)

//go:noescape
func softCapAVX2(x *float32, n int, limit float32)

func (k avx2) dot(a, b []float32 /* [n] */) float32 {
	// The four-row kernel with four times the same row: a single sum is bound
	// by the latency of its additions, so the others cost little.
	var out [4]float32
	gemvF32AVX2(&out, unsafe.SliceData(a), 0, unsafe.SliceData(b), len(a))
	return out[0]
}

func (k avx2) mulF32(y []float32, yStride int, w []float32, wStride, rows, cols int, x []float32, xStride, n int) {
	if cols == 0 {
		k.portable.mulF32(y, yStride, w, wStride, rows, cols, x, xStride, n)
		return
	}
	// A block of rows stays in the second-level cache while the tokens pass.
	step := panelRows(cols)
	for r := 0; r < rows; r += step {
		k.mulBlock(y[r:], yStride, w[r*wStride:], wStride, min(step, rows-r), cols, x, xStride, n)
	}
}

func (k avx2) mulBlock(y []float32, yStride int, w []float32, wStride, rows, cols int, x []float32, xStride, n int) {
	b := 0
	for ; rows >= 2 && b+2 <= n; b += 2 {
		for r := 0; r < rows; r += 2 {
			r = min(r, rows-2) // the last tile may compute a row again
			var out [4]float32
			tileAVX2(&out, &w[r*wStride], wStride, &x[b*xStride], xStride, cols)
			*(*[2]float32)(y[b*yStride+r:]) = [2]float32(out[:2])
			*(*[2]float32)(y[(b+1)*yStride+r:]) = [2]float32(out[2:])
		}
	}
	for ; b < n; b++ {
		k.gemvF32(y[b*yStride:][:rows], w, wStride, x[b*xStride:][:cols])
	}
}

// gemvF32 computes y[r] = Dot(w[r], x).
func (k avx2) gemvF32(y []float32 /* [rows] */, w []float32 /* [rows, wStride] */, wStride int, x []float32 /* [cols] */) {
	var out [4]float32
	if len(y) < len(out) {
		for r := range y {
			gemvF32AVX2(&out, &w[r*wStride], 0, &x[0], len(x))
			y[r] = out[0]
		}
		return
	}
	for r := 0; r < len(y); r += len(out) {
		r = min(r, len(y)-len(out))
		gemvF32AVX2(&out, &w[r*wStride], wStride, &x[0], len(x))
		*(*[4]float32)(y[r:]) = out
	}
}

func (k avx2) gemv(y []float32 /* [rows] */, t Type, w []byte /* [rows, cols] */, rows, cols int, x []float32 /* [cols] */) bool {
	var out [4]float32
	if t != F16 && t != BF16 || rows < len(out) || cols == 0 || cols%lanes != 0 {
		return false
	}
	for r := 0; r < rows; r += len(out) {
		r = min(r, rows-len(out))
		// A kernel in a variable would make out escape to the heap.
		if t == F16 {
			gemvF16AVX2(&out, &w[2*r*cols], cols, &x[0], cols)
		} else {
			gemvBF16AVX2(&out, &w[2*r*cols], cols, &x[0], cols)
		}
		*(*[4]float32)(y[r:]) = out
	}
	return true
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

func (k avx2) expSum(p []float32 /* [n] */, shift float32) float32 {
	return expSumAVX2(unsafe.SliceData(p), len(p), shift)
}

func (k avx2) silu(dst, x []float32 /* [n] */) {
	siluAVX2(unsafe.SliceData(dst), unsafe.SliceData(x), len(dst))
}

func (k avx2) geluTanh(dst, x []float32 /* [n] */) {
	geluTanhAVX2(unsafe.SliceData(dst), unsafe.SliceData(x), len(dst))
}

func (k avx2) geluErf(dst, x []float32 /* [n] */) {
	geluErfAVX2(unsafe.SliceData(dst), unsafe.SliceData(x), len(dst))
}

func (k avx2) softCap(x []float32 /* [n] */, limit float32) {
	softCapAVX2(unsafe.SliceData(x), len(x), limit)
}
