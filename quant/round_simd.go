//go:build !noasm && (amd64 || arm64)

package quant

// The rounding kernels, of AVX2 and NEON, take elements in steps of 16, at least
// one.

//go:noescape
func largestBits16(x *float32, n int) uint32

//go:noescape
func roundKey8x16(dst *uint8, step int, x *float32, n int, inverse float32)

//go:noescape
func roundPairs8x16(dst *int8, x *float32, n int, inverse float32)

//go:noescape
func roundF8x16(dst *uint8, x *float32, n int, inverse float32)

//go:noescape
func roundF16x16(dst *byte, x *float32, n int)

// rounder overrides how heads are rounded.
type rounder struct{ portable }

func (k rounder) largestBits(x []float32) uint32 {
	bits, n := uint32(0), roundSteps(len(x))
	if n > 0 {
		bits = largestBits16(&x[0], n)
	}
	return max(bits, k.portable.largestBits(x[n:]))
}

func (k rounder) roundKey8(dst []uint8, step int, x []float32, inverse float32) {
	n := roundSteps(len(x))
	if n > 0 {
		roundKey8x16(&dst[0], step, &x[0], n, inverse)
	}
	k.roundKey8From(n, dst, step, x, inverse)
}

func (k rounder) roundPairs8(dst []int8, x []float32, inverse float32) {
	n := roundSteps(len(x))
	if n > 0 {
		roundPairs8x16(&dst[0], &x[0], n, inverse)
	}
	if n < len(x) {
		k.portable.roundPairs8(dst[2*n:], x[n:], inverse)
	}
}

func (k rounder) roundF8(dst []uint8, x []float32, inverse float32) {
	n := roundSteps(len(x))
	if n > 0 {
		roundF8x16(&dst[0], &x[0], n, inverse)
	}
	k.portable.roundF8(dst[n:], x[n:], inverse)
}

func (k rounder) roundF16(dst []byte, x []float32) {
	n := roundSteps(len(x))
	if n > 0 {
		roundF16x16(&dst[0], &x[0], n)
	}
	k.portable.roundF16(dst[2*n:], x[n:])
}
