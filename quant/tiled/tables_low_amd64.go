//go:build !noasm

package tiled

//lint:file-ignore U1000 Only assembly reads these tables.

import "github.com/llmrun/llmrun/quant"

// lowTables are the constants of the kernels of low-bit formats. Places are operands of
// VPMULTISHIFTQB: byte j of a 32-bit lane takes the eight bits from there on.
type lowTables struct {
	fields2 [4]places // fields of 2 bits of byte k of a lane
	fields1 [4]places // the low four bits of byte k, which land on bit 2
	signs3  [4]places // four bits from bit 4k on, which land on bit 3
	sevens  places    // four numbers of seven bits
	bits    places    // four bits
	threes  places    // four numbers of three bits
	fours   places    // four nibbles
	tops    [4]places // the top bit of nibble k, which lands on bit 2
	// lowBytes and highBytes are those of four words of 16 bits, in two vectors.
	lowBytes, highBytes places

	seven [128]uint8 // eight signs for seven

	// What fields and the sign above them stand for, plus 128.
	levelsIQ2, levelsIQ3XXS, levelsIQ3S places
	levelsIQ1                           places // less 1 with the sign, otherwise plus 1
	levelsFP4                           places // by nibbles
	levelsTernary, levelsBit            places // by two bits, by bit 2
	minusOnes                           places

	whole, quarter, eighth float32
	mask2, mask3, ones     uint32 // of the lowest bits of bytes: 2, 3 and 1
	one, thirty, fourteen  uint32
	upperNibble            uint32  // of 16 bits
	digit1, digit2         uint32  // the smallest bytes whose first base-3 digits are 1 and 2
	notFloat, float8       uint32  // 0x7f, and the bits of 8-bit floats in float32
	toHalf                 float32 // 2^119, half of the exponents' difference
}

// places has a number for each byte of a vector.
type places [64]uint8

// placesOf returns the places for byte j of each lane.
func placesOf(place func(j int) int) (all places) {
	for i := range all {
		all[i] = uint8(32*(i/laneBytes%2)+place(i%laneBytes)) & 63
	}
	return all
}

// levelsOf returns a table of levels with a sign above the fields' bits.
func levelsOf(levels []int8, bits int) (all places) {
	for i := range all {
		if field := i & (1<<bits - 1); field < len(levels) {
			v := uint8(levels[field])
			if i>>bits&1 != 0 {
				v = -v
			}
			all[i] = v + signedZero
		}
	}
	return all
}

var lowConstants = func() (c lowTables) {
	for k := range 4 {
		c.fields2[k] = placesOf(func(j int) int { return 8*k + 2*j })
		c.fields1[k] = placesOf(func(j int) int { return 8*k + j - 2 })
		c.signs3[k] = placesOf(func(j int) int { return 4*k + j - 3 })
	}
	c.sevens = placesOf(func(j int) int { return 7 * j })
	c.bits = placesOf(func(j int) int { return j })
	c.threes = placesOf(func(j int) int { return 3 * j })
	c.fours = placesOf(func(j int) int { return 4 * j })
	for k := range c.tops {
		c.tops[k] = placesOf(func(int) int { return 4*k + 1 })
	}
	for i := range c.lowBytes {
		row, k := i/laneBytes, i%laneBytes
		c.lowBytes[i] = uint8(64*(k/2) + laneBytes*row + 2*(k%2))
		c.highBytes[i] = c.lowBytes[i] + 1
	}
	for i := range c.seven {
		c.seven[i] = quant.SignByte(uint8(i))
	}
	c.levelsIQ2 = levelsOf(quant.GridOf(quant.IQ2_S).Levels[:3], 2)
	c.levelsIQ3XXS = levelsOf(quant.GridOf(quant.IQ3_XXS).Levels, 3)
	c.levelsIQ3S = levelsOf(quant.GridOf(quant.IQ3_S).Levels, 3)
	for i := range c.levelsFP4 {
		c.levelsIQ1[i] = uint8(8*(i%4)) - 8 + signedZero + 1 - uint8(i>>2&1)*2
		c.levelsFP4[i] = e2m1[i%16] - 16 + signedZero
		c.levelsTernary[i] = uint8(i%4) - 1 + signedZero
		c.levelsBit[i] = uint8(i>>2&1)*2 - 1 + signedZero
		c.minusOnes[i] = signedZero - 1
	}
	c.digit1, c.digit2 = 0x56565656, 0xabababab
	c.notFloat, c.float8, c.toHalf = 0x7f, 0x7f<<20, 0x1p119
	c.whole, c.quarter, c.eighth = 1, 0.25, 0.125
	c.mask2, c.mask3, c.ones, c.one, c.thirty, c.fourteen, c.upperNibble = 0x03030303, 0x07070707, lowBits&0xffffffff, 1, 30, 14, 0xf000
	return c
}()

// words256 fills a vector.
type words256 [8]uint32

// lowTables256 are the constants of the AVX2 kernels of low-bit formats.
type lowTables256 struct {
	pick           [4]words256 // VPSHUFB indices: byte k of each lane in all its bytes
	upper          [2]words256 // the upper bytes of two words of 16 bits, in the lower or the upper half
	sevens         [4]words256 // seven bits of byte k
	parity         words256    // VPSHUFB table: the top bit if the number of bits is odd
	levelsFP4      words256    // VPSHUFB table, plus 128
	nibbles, bytes words256    // masks of bytes, and of the lowest byte of lanes
	nineBits       words256    // masks of lanes
	bits89, bit8   words256
	highThree      words256 // bits 8 to 10 of lanes, highNibble those to 11
	highNibble     words256
	bit11          words256
	sevenBits      words256 // masks of bytes
	twoBits        words256
	minusOnes      words256 // plus 128
	digit1, digit2 words256 // see lowTables
	pairs          words256 // masks of one of four fields of 2 bits for each byte
	levelsPairs    words256 // VPSHUFB table: what a field in bits 0 and 1, or 2 and 3, stands for, plus 128
	thirty, one    words256
	fourteen       words256

	whole, quarter, eighth float32
	lowBits, topBits       uint32 // bits 0-3 and 4-7 of bytes 0-3
	notFloat, float8       uint32 // see lowTables
	toHalf                 float32
}

var lowConstants256 = func() (c lowTables256) {
	for k := range c.pick {
		for lane := range c.pick[k] {
			c.pick[k][lane] = uint32(lane%4*4+k) * 0x01010101
		}
		c.sevens[k] = repeated(0x7f << (8 * k))
	}
	for lane := range c.upper[0] {
		from := uint32(lane % 4 * 4)
		c.upper[0][lane] = 0x80800000 | (from+3)<<8 | (from + 1)
		c.upper[1][lane] = c.upper[0][lane]<<16 | 0x8080
	}
	parity, levels := [16]uint8{}, lowLevelsFP4()
	for i := range parity {
		parity[i] = quant.SignByte(uint8(i)) & 0x80
	}
	c.parity, c.levelsFP4 = twice(parity), twice(levels)
	c.nibbles, c.bytes, c.nineBits = repeated(0x0f0f0f0f), repeated(0xff), repeated(0x1ff)
	c.bits89, c.bit8 = repeated(0x300), repeated(0x100)
	c.sevenBits, c.twoBits, c.minusOnes = repeated(0x7f7f7f7f), repeated(0x03030303), repeated(0x7f7f7f7f)
	c.highThree, c.highNibble, c.bit11 = repeated(0x700), repeated(0xf00), repeated(0x800)
	c.digit1, c.digit2, c.pairs = repeated(0x56565656), repeated(0xabababab), repeated(0xc0300c03)
	pairs := [16]uint8{}
	for i := range pairs {
		pairs[i] = uint8(i&3|i>>2) - 1 + signedZero
	}
	c.levelsPairs = twice(pairs)
	c.thirty, c.one, c.fourteen = repeated(30), repeated(1), repeated(14)
	c.whole, c.quarter, c.eighth = 1, 0.25, 0.125
	c.lowBits, c.topBits = 0x08040201, 0x80402010
	c.notFloat, c.float8, c.toHalf = 0x7f, 0x7f<<20, 0x1p119
	return c
}()

// lowLevelsFP4 are the values of 4-bit floats, doubled, plus 128.
func lowLevelsFP4() (levels [16]uint8) {
	for i, v := range e2m1 {
		levels[i] = v - 16 + signedZero
	}
	return levels
}

// twice repeats a table for both halves of a vector.
func twice(table [16]uint8) (words words256) {
	for i := range words {
		for j := range 4 {
			words[i] |= uint32(table[i%4*4+j]) << (8 * j)
		}
	}
	return words
}
