//go:build !noasm

package quant

// The rounding kernels take elements in steps of 16, at least one.

//go:noescape
func largestBitsAVX2(x *float32, n int) uint32

//go:noescape
func roundKey8AVX2(dst *uint8, step int, x *float32, n int, inverse float32)

//go:noescape
func roundPairs8AVX2(dst *int8, x *float32, n int, inverse float32)

//go:noescape
func roundF8AVX2(dst *uint8, x *float32, n int, inverse float32)

//go:noescape
func roundF16AVX2(dst *byte, x *float32, n int)

func (k elementwise) largestBits(x []float32) uint32 {
	bits, n := uint32(0), roundSteps(len(x))
	if n > 0 {
		bits = largestBitsAVX2(&x[0], n)
	}
	return max(bits, k.portable.largestBits(x[n:]))
}

func (k elementwise) roundKey8(dst []uint8, step int, x []float32, inverse float32) {
	n := roundSteps(len(x))
	if n > 0 {
		roundKey8AVX2(&dst[0], step, &x[0], n, inverse)
	}
	k.roundKey8From(n, dst, step, x, inverse)
}

func (k elementwise) roundPairs8(dst []int8, x []float32, inverse float32) {
	n := roundSteps(len(x))
	if n > 0 {
		roundPairs8AVX2(&dst[0], &x[0], n, inverse)
	}
	if n < len(x) {
		k.portable.roundPairs8(dst[2*n:], x[n:], inverse)
	}
}

func (k elementwise) roundF8(dst []uint8, x []float32, inverse float32) {
	n := roundSteps(len(x))
	if n > 0 {
		roundF8AVX2(&dst[0], &x[0], n, inverse)
	}
	k.portable.roundF8(dst[n:], x[n:], inverse)
}

func (k elementwise) roundF16(dst []byte, x []float32) {
	n := roundSteps(len(x))
	if n > 0 {
		roundF16AVX2(&dst[0], &x[0], n)
	}
	k.portable.roundF16(dst[2*n:], x[n:])
}

// f8Rounding is what roundF8AVX2 loads, in the order in which it does.
var f8Rounding = [...]uint32{1<<31 - 1, 0x80, f8AlignBits, 1, 0x7ffff, f8Rebias, f8NormalBits}
