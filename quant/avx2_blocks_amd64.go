//go:build !noasm

package quant

//go:noescape
func dequantTableAVX2(dst *float32, src *byte, blocks int, table *[16]int8)

//go:noescape
func dequantMXFP4AVX2(dst *float32, src *byte, blocks int, table *[16]int8)

//go:noescape
func dequantQ41AVX2(dst *float32, src *byte, blocks int)

//go:noescape
func dequantI4ZAVX2(dst *float32, src *byte, blocks int)

//go:noescape
func dequantQ50AVX2(dst *float32, src *byte, blocks int)

//go:noescape
func dequantQ51AVX2(dst *float32, src *byte, blocks int)

//go:noescape
func dequantIQ4XSAVX2(dst *float32, src *byte, blocks int, table *[16]int8)

//go:noescape
func dequantQ2KAVX2(dst *float32, src *byte, blocks int)

//go:noescape
func dequantQ3KAVX2(dst *float32, src *byte, blocks int)

// dequantBlocks decodes blocks of the less common formats for the avx2 and avx512 paths. It
// returns false for F32, which is only copied.
func dequantBlocks(t Type, dst *float32, src *byte, blocks int) bool {
	switch t {
	case IQ4_NL:
		dequantTableAVX2(dst, src, blocks, &iq4Bytes)
	case NF4:
		dequantTableAVX2(dst, src, blocks, &nf4Bytes)
	case MXFP4:
		dequantMXFP4AVX2(dst, src, blocks, &mxfp4Bytes)
	case IQ4_XS:
		dequantIQ4XSAVX2(dst, src, blocks, &iq4Bytes)
	case Q4_1:
		dequantQ41AVX2(dst, src, blocks)
	case I4Z:
		dequantI4ZAVX2(dst, src, blocks)
	case Q5_0:
		dequantQ50AVX2(dst, src, blocks)
	case Q5_1:
		dequantQ51AVX2(dst, src, blocks)
	case Q2_K:
		dequantQ2KAVX2(dst, src, blocks)
	case Q3_K:
		dequantQ3KAVX2(dst, src, blocks)
	default:
		return false
	}
	return true
}
