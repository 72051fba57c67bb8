//go:build !noasm

package tiled

// What the assembly kernels load and broadcast.
var (
	// startValue is startFloat, or startBits read as an integer.
	startValue float32 = startFloat

	// What rounding needs: a float's bits without the sign, the largest code, and
	// bytes of 1, whose products with codes are the codes.
	magnitudeMask uint32  = ^uint32(signMask)
	largestCode   float32 = 127
	byteOnes      uint32  = 0x01010101

	nibbleMask uint32 = 0x0F0F0F0F
	sixMask    uint32 = 0x3F3F3F3F
	highMask   uint32 = 0x30303030
	fifthBit   uint32 = 0x10101010
	topBits    uint32 = 0x80808080
	signBit    uint32 = signMask

	// What tiles of 16-bit floats take.
	upperHalf     uint32  = 0xFFFF0000
	lowByte       uint32  = 0xFF
	halfZeroFloat float32 = halfZero

	// Masks of nibbles and high bits that were widened to 32 bits.
	dwordNibble uint32 = 0x0F
	dwordHigh   uint32 = 0x30

	one       uint32 = 1
	two       uint32 = 2
	thirtyTwo uint32 = 32

	// subnormalHalf is 2^-128, half of the smallest power of MXFP4.
	subnormalHalf uint32 = 0x00200000

	// unpackOrder puts elements in order after 32-bit numbers were packed to
	// bytes within halves of a vector.
	unpackOrder = [8]uint32{0, 4, 1, 5, 2, 6, 3, 7}

	// bitBytes picks for each of 32 bytes the one that holds its bit, bitTests
	// tests for it.
	bitBytes = [32]uint8{
		0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1,
		2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3,
	}
	bitTests = [8]uint8{1, 2, 4, 8, 16, 32, 64, 128}
)
