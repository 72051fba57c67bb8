//go:build !noasm

package quant

import (
	"math"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// neon is the path of arm64, where the instructions it uses are always there.
// What it has no kernel for comes from the fused portable twin.
type neon struct{ quantizer }

func (neon) name() string { return "neon" }

// neonDot is the path of processors with dot products of bytes (DotProd), which
// weigh values with them.
type neonDot struct{ neon }

// neonMatrix is the path of processors with matrix products of bytes too (I8MM).
type neonMatrix struct{ neonDot }

// supportedPaths returns the paths of this processor, best first.
func supportedPaths() []kernels {
	base := neon{quantizer{portable{fused}}}
	all := []kernels{base, portable{unfused}}
	if cpu.ARM64.HasASIMDDP {
		all = append([]kernels{neonDot{base}}, all...)
		if HasI8MM() {
			all = append([]kernels{neonMatrix{neonDot{base}}}, all...)
		}
	}
	return all
}

// expTable has the constants of arith.exp, GeluTanh, arith.tanh and GeluErf in
// the order that the kernels load them.
var expTable = [...]float32{
	expMin, expMax, log2E, roundMagic, -ln2Hi, -ln2Lo,
	exp6, exp5, exp4, exp3, exp2, 1,
	gelu1, gelu3, float32(math.Inf(1)),
	tanh13, tanh11, tanh9, tanh7, tanh5, tanh3, tanhSplit, 2,
	erf8, erf7, erf6, erf5, erf4, erf3, erf2, erf1, erf0, erfSlope, -0.5,
}

//go:noescape
func tileNEON(out *[4]float32, w *float32, wStride int, x *float32, xStride, steps int, tail *[4][16]float32)

//go:noescape
func gemvF32NEON(out *[4]float32, w *float32, wStride int, x *float32, steps int, tail *[5][16]float32)

//go:noescape
func gemvBF16NEON(out *[4]float32, w *byte, wStride int, x *float32, steps int)

//go:noescape
func gemvF16NEON(out *[4]float32, w *byte, wStride int, x *float32, steps int)

//go:noescape
func weightedSumF32x4NEON(o *float32, oStride int, p *float32, pStride int, v *float32, vStride, tokens int)

//go:noescape
func weightedSumF32x1NEON(o, p, v *float32, vStride, tokens int)

//go:noescape
func maxNEON(p *float32, n int) float32

//go:noescape
func expSumNEON(lane *[16]float32, p *float32, steps int, shift float32)

//go:noescape
func siluNEON(dst, x *float32, n int)

//go:noescape
func sigmoidNEON(dst, x *float32, n int)

//go:noescape
func geluTanhNEON(dst, x *float32, n int)

//go:noescape
func geluErfNEON(dst, x *float32, n int)

//go:noescape
func softCapNEON(x *float32, n int, limit float32)

//go:noescape
func dequantBF16NEON(dst *float32, src *byte, n int)

//go:noescape
func dequantF16NEON(dst *float32, src *byte, n int)

//go:noescape
func dequantQ8NEON(dst *float32, src *byte, blocks int)

//go:noescape
func dequantQ4NEON(dst *float32, src *byte, blocks int)

// padTail copies the elements of x beyond the last whole step to tail and fills
// the rest of it. Weights are filled with +0 and tokens with -0: their product
// is -0, which changes no lane that it is added to, not even the sign of a zero.
func padTail(tail *[lanes]float32, x []float32, filling float32) {
	n := copy(tail[:], x[len(x)/lanes*lanes:])
	for i := n; i < lanes; i++ {
		tail[i] = filling
	}
}

var negativeZero = float32(math.Copysign(0, -1))

// tile computes out[2*t+r] = Dot(w[r], x[t]) for two rows and two tokens.
func (k neon) tile(out *[4]float32, w []float32, wStride, cols int, x []float32, xStride int) {
	var padded [4][16]float32
	var tail *[4][16]float32
	if cols%lanes != 0 {
		tail = &padded
		padTail(&padded[0], w[:cols], 0)
		padTail(&padded[1], w[wStride:][:cols], 0)
		padTail(&padded[2], x[:cols], negativeZero)
		padTail(&padded[3], x[xStride:][:cols], negativeZero)
	}
	tileNEON(out, &w[0], wStride, &x[0], xStride, cols/lanes, tail)
}

// gemv4 computes out[r] = Dot(w[r], x) for four rows.
func (k neon) gemv4(out *[4]float32, w []float32, wStride int, x []float32 /* [cols] */) {
	var padded [5][16]float32
	var tail *[5][16]float32
	if len(x)%lanes != 0 {
		tail = &padded
		for r := range 4 {
			padTail(&padded[r], w[r*wStride:][:len(x)], 0)
		}
		padTail(&padded[4], x, negativeZero)
	}
	gemvF32NEON(out, &w[0], wStride, &x[0], len(x)/lanes, tail)
}

func (k neon) dot(a, b []float32 /* [n] */) float32 {
	if len(a) == 0 {
		return 0
	}
	var out [4]float32
	k.gemv4(&out, a, 0, b) // the same row four times
	return out[0]
}

func (k neon) mulF32(y []float32, yStride int, w []float32, wStride, rows, cols int, x []float32, xStride, n int) {
	mulPanels(k, k.portable, y, yStride, w, wStride, rows, cols, x, xStride, n)
}

func (k neon) mulBlock(y []float32, yStride int, w []float32, wStride, rows, cols int, x []float32, xStride, n int) {
	b := 0
	for ; rows >= 2 && b+2 <= n; b += 2 {
		for r := 0; r < rows; r += 2 {
			r = min(r, rows-2) // the last tile may compute a row again
			var out [4]float32
			k.tile(&out, w[r*wStride:], wStride, cols, x[b*xStride:], xStride)
			*(*[2]float32)(y[b*yStride+r:]) = [2]float32(out[:2])
			*(*[2]float32)(y[(b+1)*yStride+r:]) = [2]float32(out[2:])
		}
	}
	for ; b < n; b++ {
		k.gemvF32(y[b*yStride:][:rows], w, wStride, x[b*xStride:][:cols])
	}
}

// gemvF32 computes y[r] = Dot(w[r], x).
func (k neon) gemvF32(y []float32 /* [rows] */, w []float32 /* [rows, wStride] */, wStride int, x []float32 /* [cols] */) {
	var out [4]float32
	if len(y) < len(out) {
		for r := range y {
			y[r] = k.dot(w[r*wStride:][:len(x)], x)
		}
		return
	}
	for r := 0; r < len(y); r += len(out) {
		r = min(r, len(y)-len(out))
		k.gemv4(&out, w[r*wStride:], wStride, x)
		*(*[4]float32)(y[r:]) = out
	}
}

func (k neon) gemv(y []float32 /* [rows] */, t Type, w []byte /* [rows, cols] */, rows, cols int, x []float32 /* [cols] */) bool {
	var out [4]float32
	if t != F16 && t != BF16 || rows < len(out) || cols == 0 || cols%lanes != 0 {
		return false
	}
	for r := 0; r < rows; r += len(out) {
		r = min(r, rows-len(out))
		// A kernel in a variable would make out escape to the heap.
		if t == F16 {
			gemvF16NEON(&out, &w[2*r*cols], cols, &x[0], cols/lanes)
		} else {
			gemvBF16NEON(&out, &w[2*r*cols], cols, &x[0], cols/lanes)
		}
		*(*[4]float32)(y[r:]) = out
	}
	return true
}

func (k neon) weightedSum(o []float32, oStride int, p []float32, pStride int, v []float32, vStride, tokens, d, n int) {
	const width = 16 // elements in the kernels' registers
	c := 0
	for ; c+width <= d; c += width {
		i := 0
		for ; i+4 <= n; i += 4 {
			weightedSumF32x4NEON(&o[i*oStride+c], oStride, &p[i*pStride], pStride, &v[c], vStride, tokens)
		}
		for ; i < n; i++ {
			weightedSumF32x1NEON(&o[i*oStride+c], &p[i*pStride], &v[c], vStride, tokens)
		}
	}
	if c < d {
		k.portable.weightedSum(o[c:], oStride, p, pStride, v[c:], vStride, tokens, d-c, n)
	}
}

func (k neon) maxOf(p []float32 /* [n] */) float32 {
	whole := len(p) / lanes * lanes
	largest := k.portable.maxOf(p[whole:])
	if whole > 0 {
		// A NaN in every lane comes back as one; the comparison drops it.
		if v := maxNEON(&p[0], whole); v > largest {
			largest = v
		}
	}
	return largest
}

func (k neon) exp(x float32) float32 {
	var p, lane [lanes]float32
	p[0] = x
	expSumNEON(&lane, &p[0], 1, 0)
	return p[0]
}

func (k neon) expSum(p []float32 /* [n] */, shift float32) float32 {
	var lane [lanes]float32
	whole := len(p) / lanes * lanes
	if whole > 0 {
		expSumNEON(&lane, &p[0], whole/lanes, shift)
	}
	for i, v := range p[whole:] {
		p[whole+i] = k.ar.exp(v - shift)
		lane[i] += p[whole+i]
	}
	return addLanes(&lane)
}

func (k neon) silu(dst, x []float32 /* [n] */) {
	whole := len(dst) / 4 * 4
	if whole > 0 {
		siluNEON(unsafe.SliceData(dst), unsafe.SliceData(x), whole)
	}
	k.portable.silu(dst[whole:], x[whole:])
}

func (k neon) sigmoid(dst, x []float32 /* [n] */) {
	whole := len(dst) / 4 * 4
	if whole > 0 {
		sigmoidNEON(unsafe.SliceData(dst), unsafe.SliceData(x), whole)
	}
	k.portable.sigmoid(dst[whole:], x[whole:])
}

func (k neon) geluTanh(dst, x []float32 /* [n] */) {
	whole := len(dst) / 4 * 4
	if whole > 0 {
		geluTanhNEON(unsafe.SliceData(dst), unsafe.SliceData(x), whole)
	}
	k.portable.geluTanh(dst[whole:], x[whole:])
}

func (k neon) geluErf(dst, x []float32 /* [n] */) {
	whole := len(dst) / 4 * 4
	if whole > 0 {
		geluErfNEON(unsafe.SliceData(dst), unsafe.SliceData(x), whole)
	}
	k.portable.geluErf(dst[whole:], x[whole:])
}

func (k neon) softCap(x []float32 /* [n] */, limit float32) {
	whole := len(x) / 4 * 4
	if whole > 0 {
		softCapNEON(unsafe.SliceData(x), whole, limit)
	}
	k.portable.softCap(x[whole:], limit)
}

// dequant decodes the common formats with kernels and the others portably.
func (k neon) dequant(t Type, dst []float32 /* [cols] */, src []byte) {
	whole := len(dst) / lanes * lanes
	if whole == 0 {
		k.portable.dequant(t, dst, src)
		return
	}
	out, in, blocks := &dst[0], &src[0], len(dst)/t.BlockElems()
	switch t {
	case BF16:
		dequantBF16NEON(out, in, whole)
		dequantBF16(dst[whole:], src[2*whole:])
	case F16:
		dequantF16NEON(out, in, whole)
		dequantF16(dst[whole:], src[2*whole:])
	case Q8_0:
		dequantQ8NEON(out, in, blocks)
	case Q4_0:
		dequantQ4NEON(out, in, blocks)
	default:
		if !dequantBlocks(t, out, in, blocks) {
			k.portable.dequant(t, dst, src)
		}
	}
}
