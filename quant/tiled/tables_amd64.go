//go:build !noasm

package tiled

//lint:file-ignore U1000 Only assembly reads the tables.

// Constants that the assembly kernels load and broadcast.
var (
	// startValue is startFloat, or startBits read as an integer.
	startValue float32 = startFloat

	// thriceStart corrects starts of another zero point; see START_SIGNED.
	thriceStart uint32 = 3 * startBits & (1<<32 - 1)

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
	zeroPoint6 uint32 = 0x20202020 // halfZero in every byte
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
	bitTests = [32]uint8{
		1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128,
		1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128,
	}
	// fifthSigns becomes 16 in every byte if it takes on the signs of bitTests.
	fifthSigns = [32]int8{
		16, 16, 16, 16, 16, 16, 16, -16, 16, 16, 16, 16, 16, 16, 16, -16,
		16, 16, 16, 16, 16, 16, 16, -16, 16, 16, 16, 16, 16, 16, 16, -16,
	}

	// wordOnes sums pairs of 16-bit lanes as an operand of VPMADDWD; fifthBits is
	// fifthBit in every byte of a vector. Kernels with few registers read them here.
	wordOnes  = [16]uint16{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
	fifthBits = [8]uint32{0x10101010, 0x10101010, 0x10101010, 0x10101010, 0x10101010, 0x10101010, 0x10101010, 0x10101010}

	// Kernels of high planes: the bits of nibbles that are in pairs, the bit above, those that the plane has, and
	// what its missing bits are replaced by.
	pairBits     = repeated(0x66666666)
	topOfNibbles = repeated(0x88888888)
	keepThree    = repeated(0x0E0E0E0E)
	keepTwo      = repeated(0x0C0C0C0C)
	onesInBytes  = repeated(0x01010101)
	twosInBytes  = repeated(0x02020202)
)

func repeated(n uint32) [8]uint32 { return [8]uint32{n, n, n, n, n, n, n, n} }
