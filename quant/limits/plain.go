package limits

import (
	"encoding/binary"
	"sync/atomic"
)

// seen receives the results of loops, so that the compiler cannot remove them.
var seen atomic.Uint64

// readPlain loads memory in portable Go. It nearly reaches the bandwidth of one
// thread; several threads together may stay below the machine's limit.
func readPlain(memory []byte) {
	var a, b, c, d uint64
	for len(memory) >= 32 {
		a |= binary.LittleEndian.Uint64(memory)
		b |= binary.LittleEndian.Uint64(memory[8:])
		c |= binary.LittleEndian.Uint64(memory[16:])
		d |= binary.LittleEndian.Uint64(memory[24:])
		memory = memory[32:]
	}
	seen.Store(a | b | c | d)
}

// plainPeak measures scalar multiply-adds, for paths without an int8 SIMD
// instruction.
var plainPeak = peak{instruction: "scalar", perRound: 4 * 2, run: func(rounds int) {
	var a, b, c, d int32
	for i := range int32(rounds) {
		x := i & 127
		a += x * 3
		b += x * x
		c += x * (x + 1)
		d += x * (x ^ 5)
	}
	seen.Store(uint64(a + b + c + d))
}}
