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
	signBit    uint32 = signMask
	one        uint32 = 1
	two        uint32 = 2
	thirtyTwo  uint32 = 32

	// subnormalHalf is 2^-128, half of the smallest power of MXFP4.
	subnormalHalf uint32 = 0x00200000
)
