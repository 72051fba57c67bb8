//go:build !noasm

package limits

import "golang.org/x/sys/cpu"

//go:noescape
func readAVX512(memory *byte, n int)

//go:noescape
func readAVX2(memory *byte, n int)

// The loops of products: rounds of accumulators that do not wait for each
// other.
func peakVNNI512(rounds int)
func peakVNNI256(rounds int)
func peakAVX2(rounds int)

// peakOf returns the loop for a path of the kernels.
func peakOf(path string) peak {
	simd := path == "avx512" || path == "avx2"
	switch {
	case path == "avx512" && cpu.X86.HasAVX512VNNI:
		return peak{"VPDPBUSD zmm", 16 * 64 * 2, peakVNNI512}
	case simd && cpu.X86.HasAVXVNNI:
		return peak{"VPDPBUSD ymm", 12 * 32 * 2, peakVNNI256}
	case simd:
		// Products of bytes, sums of pairs, and their sum in 16 bits.
		return peak{"VPMADDUBSW+VPADDW ymm", 12 * 32 * 2, peakAVX2}
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
