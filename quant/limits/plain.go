package limits

import (
	"encoding/binary"
	"sync/atomic"
)

// seen keeps results in use, so that the compiler keeps what computes them.
var seen atomic.Uint64

// readPlain reads memory in plain Go, which comes close to the limit of one
// thread but hardly of several.
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

// plainPeak is the loop where no instruction for small integers is used: one
// product at a time.
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
