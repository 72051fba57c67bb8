//go:build !noasm

package quant

//go:noescape
func dequantBF16AVX2(dst *float32, src *byte, n int)

//go:noescape
func dequantF16AVX2(dst *float32, src *byte, n int)

//go:noescape
func dequantQ8AVX2(dst *float32, src *byte, blocks int)

//go:noescape
func dequantQ4AVX2(dst *float32, src *byte, blocks int)

//go:noescape
func dequantQ4KAVX2(dst *float32, src *byte, blocks int)

//go:noescape
func dequantQ5KAVX2(dst *float32, src *byte, blocks int)

//go:noescape
func dequantQ6KAVX2(dst *float32, src *byte, blocks int)

// dequant decodes the common formats with kernels and the others portably.
func (k avx2) dequant(t Type, dst []float32 /* [cols] */, src []byte) {
	if len(dst) < lanes {
		k.portable.dequant(t, dst, src)
		return
	}
	out, in, blocks := &dst[0], &src[0], len(dst)/t.BlockElems()
	switch t {
	case BF16:
		whole := len(dst) / lanes * lanes
		dequantBF16AVX2(out, in, whole)
		dequantBF16(dst[whole:], src[2*whole:])
	case F16:
		whole := len(dst) / lanes * lanes
		dequantF16AVX2(out, in, whole)
		dequantF16(dst[whole:], src[2*whole:])
	case Q8_0:
		dequantQ8AVX2(out, in, blocks)
	case Q4_0:
		dequantQ4AVX2(out, in, blocks)
	case Q4_K:
		dequantQ4KAVX2(out, in, blocks)
	case Q5_K:
		dequantQ5KAVX2(out, in, blocks)
	case Q6_K:
		dequantQ6KAVX2(out, in, blocks)
	default:
		k.portable.dequant(t, dst, src)
	}
}
