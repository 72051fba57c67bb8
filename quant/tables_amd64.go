//go:build !noasm

package quant

//lint:file-ignore U1000 Only assembly reads the tables.

import "math"

// What the assembly kernels load. They know the order and the sizes.
var (
	// expTable has the constants of arith.exp, GeluTanh, arith.tanh and GeluErf,
	// each as often as a ymm register has lanes.
	expTable = widen(
		expMin, expMax, log2E, roundMagic, -ln2Hi, -ln2Lo,
		exp6, exp5, exp4, exp3, exp2, 1,
		gelu1, gelu3, float32(math.Inf(1)),
		tanh13, tanh11, tanh9, tanh7, tanh5, tanh3, tanhSplit, 2,
		erf8, erf7, erf6, erf5, erf4, erf3, erf2, erf1, erf0, erfSlope, -0.5,
	)

	// maskTable yields a mask for the first n of up to 32 lanes when read from
	// element 32-n on.
	maskTable = func() (table [64]int32) {
		for i := range 32 {
			table[i] = -1
		}
		return table
	}()

	// weightLimits are bits of float32 numbers: 2^-100, +Inf, 32767 and 1/32767.
	// WEIGHT_SCALE uses them.
	weightLimits = [...]uint32{
		minWeightBits, 0x7F800000,
		math.Float32bits(maxWeight), math.Float32bits(1.0 / maxWeight),
	}

	minusInf = float32(math.Inf(-1))

	// q4Values are the values of Q4_0's nibbles and nibbleValues those of plain
	// ones, for kernels that look quants up instead of converting them.
	q4Values     = [16]float32{-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7}
	nibbleValues = [16]float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
)

// widen repeats each constant eight times.
func widen(constants ...float32) (table [34][8]float32) {
	for i := range table {
		for lane := range table[i] {
			table[i][lane] = constants[i]
		}
	}
	return table
}

// What FIFTH and NIBBLES load: bitBytes are VPSHUFB indices that copy the byte with bit i to byte
// i, bitTests the masks of these bits.
var (
	bitBytes, bitTests = bitSelectors()
	fifteens, sixteens = repeatByte(15), repeatByte(16)
)

func bitSelectors() (bytes, tests [32]uint8) {
	for i := range bytes {
		bytes[i], tests[i] = uint8(i/8), 1<<(i%8)
	}
	return bytes, tests
}

func repeatByte(b uint8) (all [32]uint8) {
	for i := range all {
		all[i] = b
	}
	return all
}
