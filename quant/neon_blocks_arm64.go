//go:build !noasm

package quant

//go:noescape
func dequantTableNEON(dst *float32, src *byte, blocks int, table *[16]int8)

//go:noescape
func dequantMXFP4NEON(dst *float32, src *byte, blocks int, table *[16]int8)

//go:noescape
func dequantQ41NEON(dst *float32, src *byte, blocks int)

//go:noescape
func dequantI4ZNEON(dst *float32, src *byte, blocks int)

//go:noescape
func dequantQ50NEON(dst *float32, src *byte, blocks int)

//go:noescape
func dequantQ51NEON(dst *float32, src *byte, blocks int)

//go:noescape
func dequantQ4KNEON(dst *float32, src *byte, blocks int)

//go:noescape
func dequantQ5KNEON(dst *float32, src *byte, blocks int)

//go:noescape
func dequantQ6KNEON(dst *float32, src *byte, blocks int)

//go:noescape
func dequantIQ4XSNEON(dst *float32, src *byte, blocks int, table *[16]int8)

//go:noescape
func dequantQ2KNEON(dst *float32, src *byte, blocks int)

//go:noescape
func dequantQ3KNEON(dst *float32, src *byte, blocks int)

// dequantBlocks decodes blocks of the less common formats. It returns false for
// formats.
func dequantBlocks(t Type, dst *float32, src *byte, blocks int) bool {
	switch t {
	case IQ4_NL:
		dequantTableNEON(dst, src, blocks, &iq4Bytes)
	case NF4:
		dequantTableNEON(dst, src, blocks, &nf4Bytes)
	case MXFP4:
		dequantMXFP4NEON(dst, src, blocks, &mxfp4Bytes)
	case Q4_1:
		dequantQ41NEON(dst, src, blocks)
	case I4Z:
		dequantI4ZNEON(dst, src, blocks)
	case Q5_0:
		dequantQ50NEON(dst, src, blocks)
	case Q5_1:
		dequantQ51NEON(dst, src, blocks)
	case Q4_K:
		dequantQ4KNEON(dst, src, blocks)
	case Q5_K:
		dequantQ5KNEON(dst, src, blocks)
	case Q6_K:
		dequantQ6KNEON(dst, src, blocks)
	case IQ4_XS:
		dequantIQ4XSNEON(dst, src, blocks, &iq4Bytes)
	case Q2_K:
		dequantQ2KNEON(dst, src, blocks)
	case Q3_K:
		dequantQ3KNEON(dst, src, blocks)
	default:
		return false
	}
	return true
}
