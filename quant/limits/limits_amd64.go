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
		return peak{"VPDPBUSD zmm", 16 * 64 * 2, loop(peakVNNI512)}
	case simd && cpu.X86.HasAVXVNNI:
		return peak{"VPDPBUSD ymm", 12 * 32 * 2, loop(peakVNNI256)}
	case simd:
		// Products of bytes, sums of pairs, and their sum in 16 bits.
		return peak{"VPMADDUBSW+VPADDW ymm", 12 * 32 * 2, loop(peakAVX2)}
	}
	return plainPeak
}

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
