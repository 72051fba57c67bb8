//go:build !noasm

package limits

import "golang.org/x/sys/cpu"

//go:noescape
func readAVX512(memory *byte, n int)

//go:noescape
func readAVX2(memory *byte, n int)

// The peak kernels repeat multiply-adds into independent accumulators. Every
// 32-bit lane of both operands holds factors.
func peakVNNI512(rounds int, factors uint32)
func peakVNNI256(rounds int, factors uint32)
func peakAVX2(rounds int, factors uint32)

// loop binds nonzero operands to a peak kernel. Multiplying zeros draws less
// power, and some processors then clock higher than under real load.
func loop(f func(rounds int, factors uint32)) func(rounds int) {
	return func(rounds int) { f(rounds, 0x5A3C7E19) }
}

// peakOf returns the peak loop for a path named by quant.Features.
func peakOf(path string) peak {
	simd := path == "avx512" || path == "avx2"
	switch {
	case path == "avx512" && cpu.X86.HasAVX512VNNI:
		return peak{instruction: "VPDPBUSD zmm", perRound: 16 * 64 * 2, run: loop(peakVNNI512)}
	case simd && cpu.X86.HasAVXVNNI:
		return peak{instruction: "VPDPBUSD ymm", perRound: 12 * 32 * 2, run: loop(peakVNNI256)}
	case simd:
		// VPMADDUBSW multiplies bytes and adds pairs; VPADDW accumulates 16-bit sums.
		return peak{instruction: "VPMADDUBSW+VPADDW ymm", perRound: 12 * 32 * 2, run: loop(peakAVX2)}
	}
	return plainPeak
}

// tileConfig is the memory operand of LDTILECFG.
type tileConfig struct {
	palette  uint8
	_        [15]uint8
	rowBytes [16]uint16
	rows     [16]uint8
}

// peakAMX executes rounds iterations of four TDPBSSD with full tiles. Every row
// of both source tiles is a copy of row.
//
//go:noescape
func peakAMX(rounds int, config *tileConfig, row *[64]byte)

// tilePeak measures the matrix unit. One iteration executes four products of a
// 16×64 with a 64×16 byte matrix.
var tilePeak = peak{instruction: "TDPBSSD", perRound: 4 * 16 * 16 * 64 * 2, rounds: 1 << 11, run: func(rounds int) {
	config := tileConfig{palette: 1}
	for tile := range 8 {
		config.rows[tile], config.rowBytes[tile] = 16, 64
	}
	var row [64]byte
	for i := range row {
		row[i] = byte(37*i + 25)
	}
	peakAMX(rounds, &config, &row)
}}

// Read loads memory at the full bandwidth of one thread. The SIMD kernels skip
// the last len(memory) mod 1024 bytes.
func Read(memory []byte) {
	n := len(memory) &^ 1023
	switch {
	case n == 0:
	case cpu.X86.HasAVX512F:
		readAVX512(&memory[0], n)
	case cpu.X86.HasAVX2:
		readAVX2(&memory[0], n)
	default:
		readPlain(memory)
	}
}
