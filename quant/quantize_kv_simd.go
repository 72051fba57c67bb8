//go:build !noasm && (amd64 || arm64)

package quant

// The rounding kernels, of AVX2 and NEON, take elements in steps of 16, at least
// one.

//go:noescape
func largestBits16(x *float32, n int) uint32

//go:noescape
func quantizeKey8x16(dst *uint8, step int, x *float32, n int, inverse float32)

//go:noescape
func quantizePairs8x16(dst *int8, x *float32, n int, inverse float32)

//go:noescape
func quantizeF8x16(dst *uint8, x *float32, n int, inverse float32)

//go:noescape
func roundF16x16(dst *byte, x *float32, n int)

// quantizer overrides how heads are rounded.
type quantizer struct{ portable }

func (k quantizer) largestBits(x []float32) uint32 {
	bits, n := uint32(0), simdElems(len(x))
	if n > 0 {
		bits = largestBits16(&x[0], n)
	}
	return max(bits, k.portable.largestBits(x[n:]))
}

func (k quantizer) quantizeKey8(dst []uint8, step int, x []float32, inverse float32) {
	n := simdElems(len(x))
	if n > 0 {
		quantizeKey8x16(&dst[0], step, &x[0], n, inverse)
	}
	k.quantizeKey8From(n, dst, step, x, inverse)
}

func (k quantizer) quantizePairs8(dst []int8, x []float32, inverse float32) {
	n := simdElems(len(x))
	if n > 0 {
		quantizePairs8x16(&dst[0], &x[0], n, inverse)
	}
	if n < len(x) {
		k.portable.quantizePairs8(dst[2*n:], x[n:], inverse)
	}
}

func (k quantizer) quantizeF8(dst []uint8, x []float32, inverse float32) {
	n := simdElems(len(x))
	if n > 0 {
		quantizeF8x16(&dst[0], &x[0], n, inverse)
	}
	k.portable.quantizeF8(dst[n:], x[n:], inverse)
}

func (k quantizer) roundF16(dst []byte, x []float32) {
	n := simdElems(len(x))
	if n > 0 {
		roundF16x16(&dst[0], &x[0], n)
	}
	k.portable.roundF16(dst[2*n:], x[n:])
}
