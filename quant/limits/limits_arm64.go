//go:build !noasm

package limits

import "golang.org/x/sys/cpu"

//go:noescape
func readNEON(memory *byte, n int)

// The peak kernels repeat multiply-adds into independent accumulators. Every
// 32-bit lane of both operands holds factors.
func peakSMMLA(rounds int, factors uint32)
func peakSDOT(rounds int, factors uint32)

// loop binds nonzero operands to a peak kernel.
func loop(f func(rounds int, factors uint32)) func(rounds int) {
	return func(rounds int) { f(rounds, 0x5A3C7E19) }
}

// peakOf returns the peak loop for a path named by quant.Features.
func peakOf(path string) peak {
	switch {
	case path == "neon" && cpu.ARM64.HasI8MM:
		return peak{instruction: "SMMLA", perRound: 16 * 32 * 2, run: loop(peakSMMLA)}
	case path == "neon" && cpu.ARM64.HasASIMDDP:
		return peak{instruction: "SDOT", perRound: 16 * 16 * 2, run: loop(peakSDOT)}
	}
	return plainPeak
}

// tilePeak satisfies the reference in MatrixPeak; quant.Tiles is false here.
var tilePeak = plainPeak

// Read loads memory at the full bandwidth of one thread. It skips the last
// len(memory) mod 1024 bytes of a longer range.
func Read(memory []byte) {
	if n := len(memory) &^ 1023; n > 0 {
		readNEON(&memory[0], n)
		return
	}
	readPlain(memory)
}
