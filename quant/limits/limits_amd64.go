//go:build !noasm

package limits

import "golang.org/x/sys/cpu"

//go:noescape
func readAVX512(memory *byte, n int)

//go:noescape
func readAVX2(memory *byte, n int)

// The loops of products: rounds of accumulators that do not wait for each
// other, with factors of four bytes.
func peakVNNI512(rounds int, factors uint32)
func peakVNNI256(rounds int, factors uint32)
func peakAVX2(rounds int, factors uint32)

// loop makes a loop multiply numbers: zeros would take less power, and some
// processors run faster then.
func loop(f func(rounds int, factors uint32)) func(rounds int) {
	return func(rounds int) { f(rounds, 0x5A3C7E19) }
}

// peakOf returns the loop for a path of the kernels.
func peakOf(path string) peak {
	simd := path == "avx512" || path == "avx2"
	switch {
	case path == "avx512" && cpu.X86.HasAVX512VNNI:
		return peak{instruction: "VPDPBUSD zmm", perRound: 16 * 64 * 2, run: loop(peakVNNI512)}
	case simd && cpu.X86.HasAVXVNNI:
		return peak{instruction: "VPDPBUSD ymm", perRound: 12 * 32 * 2, run: loop(peakVNNI256)}
	case simd:
		// Products of bytes, sums of pairs, and their sum in 16 bits.
		return peak{instruction: "VPMADDUBSW+VPADDW ymm", perRound: 12 * 32 * 2, run: loop(peakAVX2)}
	}
	return plainPeak
}

// tileConfig is what the tile registers of AMX are configured with.
type tileConfig struct {
	palette  uint8
	_        [15]uint8
	rowBytes [16]uint16
	rows     [16]uint8
}

// peakAMX does rounds of products of full tiles whose rows are all the same.
//
//go:noescape
func peakAMX(rounds int, config *tileConfig, row *[64]byte)

// tilePeak is the loop of the matrix unit: in a round four products of 16 by 64
// with 64 by 16 bytes.
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

// Read reads memory as fast as one thread can, but for what is left of it after
// a multiple of 1024 bytes.
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
