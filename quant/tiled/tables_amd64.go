//go:build !noasm

package tiled

//lint:file-ignore U1000 Only assembly reads the tables.

// Constants that the assembly kernels load and broadcast.
var (
	// startValue is startFloat, or startBits read as an integer.
	startValue float32 = startFloat

	// Quantize kernels: the mask of all bits except the sign, the largest code, and
	// ones for summing codes with a dot-product instruction.
	magnitudeMask uint32  = ^uint32(signMask)
	largestCode   float32 = 127
	byteOnes      uint32  = 0x01010101

	nibbleMask uint32 = 0x0F0F0F0F
	sixMask    uint32 = 0x3F3F3F3F
	highMask   uint32 = 0x30303030
	fifthBit   uint32 = 0x10101010
	topBits    uint32 = 0x80808080
	signBit    uint32 = signMask

	// Conversion to bfloat16 for AMX.
	upperHalf     uint32  = 0xFFFF0000
	lowByte       uint32  = 0xFF
	halfZeroFloat float32 = halfZero

	// Masks of the low nibble and the two high bits of codes widened to 32 bits.
	dwordNibble uint32 = 0x0F
	dwordHigh   uint32 = 0x30

	one       uint32 = 1
	two       uint32 = 2
	thirtyTwo uint32 = 32

	// subnormalHalf is 2^-128, half of the smallest MXFP4 scale.
	subnormalHalf uint32 = 0x00200000

	// unpackOrder are VPERMD indices that restore the order of elements after
	// VPACKSSDW and VPACKSSWB, which pack within 128-bit lanes.
	unpackOrder = [8]uint32{0, 4, 1, 5, 2, 6, 3, 7}

	// bitBytes are VPSHUFB indices that copy the byte with bit i to byte i, for 32
	// bits; bitTests are the masks of these bits.
	bitBytes = [32]uint8{
		0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1,
		2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3,
	}
	bitTests = [8]uint8{1, 2, 4, 8, 16, 32, 64, 128}
)
