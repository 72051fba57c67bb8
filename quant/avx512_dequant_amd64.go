//go:build !noasm

package quant

//go:noescape
func dequantBF16AVX512(dst *float32, src *byte, n int)

//go:noescape
func dequantF16AVX512(dst *float32, src *byte, n int)

//go:noescape
func dequantQ8AVX512(dst *float32, src *byte, blocks int)

//go:noescape
func dequantNibblesAVX512(dst *float32, src *byte, blocks int, table *[16]float32)

//go:noescape
func dequantQ4KAVX512(dst *float32, src *byte, blocks int)

//go:noescape
func dequantQ5KAVX512(dst *float32, src *byte, blocks int)

//go:noescape
func dequantQ6KAVX512(dst *float32, src *byte, blocks int)

// dequant decodes the common formats with kernels and the others portably.
func (k avx512) dequant(t Type, dst []float32 /* [cols] */, src []byte) {
	if len(dst) < lanes {
		k.portable.dequant(t, dst, src)
		return
	}
	out, in, blocks := &dst[0], &src[0], len(dst)/t.BlockElems()
	switch t {
	case BF16:
		whole := len(dst) / lanes * lanes
		dequantBF16AVX512(out, in, whole)
		dequantBF16(dst[whole:], src[2*whole:])
	case F16:
		whole := len(dst) / lanes * lanes
		dequantF16AVX512(out, in, whole)
		dequantF16(dst[whole:], src[2*whole:])
	case Q8_0:
		dequantQ8AVX512(out, in, blocks)
	case Q4_0:
		dequantNibblesAVX512(out, in, blocks, &q4Values)
	case IQ4_NL:
		dequantNibblesAVX512(out, in, blocks, &iq4Values)
	case NF4:
		dequantNibblesAVX512(out, in, blocks, &nf4Values)
	case Q4_K:
		dequantQ4KAVX512(out, in, blocks)
	case Q5_K:
		dequantQ5KAVX512(out, in, blocks)
	case Q6_K:
		dequantQ6KAVX512(out, in, blocks)
	default:
		k.portable.dequant(t, dst, src)
	}
}
