//go:build !noasm

package quant

import "unsafe"

// avx512 is the path of processors with AVX-512 F, BW, VL and DQ. What it has
// no kernel for comes from the fused portable twin.
type avx512 struct{ elementwise }

func newAVX512() kernels { return avx512{elementwise{quantizer{portable{fused}}}} }

func (avx512) name() string { return "avx512" }

//go:noescape
func tileAVX512(out *[16]float32, w *float32, wStride int, x *float32, xStride, cols int)

//go:noescape
func gemvF32AVX512(out *[8]float32, w *float32, wStride int, x *float32, cols int)

//go:noescape
func gemvBF16AVX512(out *[8]float32, w *byte, wStride int, x *float32, cols int)

//go:noescape
func gemvF16AVX512(out *[8]float32, w *byte, wStride int, x *float32, cols int)

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

func (k avx512) mulF32(y []float32, yStride int, w []float32, wStride, rows, cols int, x []float32, xStride, n int) {
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

func (k avx512) mulBlock(y []float32, yStride int, w []float32, wStride, rows, cols int, x []float32, xStride, n int) {
	b := 0
	for ; rows >= 4 && n-b >= 2 && n >= 4; b += 4 {
		// The last tile reaches back over tokens that are already computed;
		// they get the same results again. So does the last tile of rows.
		b = min(b, n-4)
		for r := 0; r < rows; r += 4 {
			r = min(r, rows-4)
			var out [16]float32
			tileAVX512(&out, &w[r*wStride], wStride, &x[b*xStride], xStride, cols)
			for t := range 4 {
				*(*[4]float32)(y[(b+t)*yStride+r:]) = [4]float32(out[4*t:])
			}
		}
	}
	for ; b < n; b++ {
		k.gemvF32(y[b*yStride:][:rows], w, wStride, x[b*xStride:][:cols])
	}
}

// gemvF32 computes y[r] = Dot(w[r], x).
func (k avx512) gemvF32(y []float32 /* [rows] */, w []float32 /* [rows, wStride] */, wStride int, x []float32 /* [cols] */) {
	var out [8]float32
	if len(y) < len(out) {
		for r := range y {
			gemvF32AVX512(&out, &w[r*wStride], 0, &x[0], len(x))
			y[r] = out[0]
		}
		return
	}
	for r := 0; r < len(y); r += len(out) {
		r = min(r, len(y)-len(out))
		gemvF32AVX512(&out, &w[r*wStride], wStride, &x[0], len(x))
		*(*[8]float32)(y[r:]) = out
	}
}

func (k avx512) gemv(y []float32 /* [rows] */, t Type, w []byte /* [rows, cols] */, rows, cols int, x []float32 /* [cols] */) bool {
	var out [8]float32
	if t != F16 && t != BF16 || rows < len(out) || cols == 0 {
		return false
	}
	for r := 0; r < rows; r += len(out) {
		r = min(r, rows-len(out))
		// A kernel in a variable would make out escape to the heap.
		if t == F16 {
			gemvF16AVX512(&out, &w[2*r*cols], cols, &x[0], cols)
		} else {
			gemvBF16AVX512(&out, &w[2*r*cols], cols, &x[0], cols)
		}
		*(*[8]float32)(y[r:]) = out
	}
	return true
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

//go:noescape
func maxAVX512(p *float32, n int) float32

//go:noescape
func expSumAVX512(p *float32, n int, shift float32) float32

//go:noescape
func siluAVX512(dst, x *float32, n int)

//go:noescape
func geluTanhAVX512(dst, x *float32, n int)

//go:noescape
func geluErfAVX512(dst, x *float32, n int)

//go:noescape
func softCapAVX512(x *float32, n int, limit float32)

func (k avx512) maxOf(p []float32 /* [n] */) float32 {
	return maxAVX512(unsafe.SliceData(p), len(p))
}

func (k avx512) expSum(p []float32 /* [n] */, shift float32) float32 {
	return expSumAVX512(unsafe.SliceData(p), len(p), shift)
}

func (k avx512) silu(dst, x []float32 /* [n] */) {
	siluAVX512(unsafe.SliceData(dst), unsafe.SliceData(x), len(dst))
}

func (k avx512) geluTanh(dst, x []float32 /* [n] */) {
	geluTanhAVX512(unsafe.SliceData(dst), unsafe.SliceData(x), len(dst))
}

func (k avx512) geluErf(dst, x []float32 /* [n] */) {
	geluErfAVX512(unsafe.SliceData(dst), unsafe.SliceData(x), len(dst))
}

func (k avx512) softCap(x []float32 /* [n] */, limit float32) {
	softCapAVX512(unsafe.SliceData(x), len(x), limit)
}
