package tiled

import (
	"math"
	"math/rand/v2"

	"github.com/llmrun/llmrun/quant"
)

// checkQueries makes a tile of 8 queries, which runs the kernels for four queries.
const checkQueries = 5

// CheckKeys tests the score kernels of the active path on this processor. It scores
// fixed random queries against a block of keys with cols elements of 8 or 4 bits, and
// compares the results with the portable twin's. If they differ, it returns a
// [quant.KernelError].
func CheckKeys(cols, bits int) error {
	if _, plain := active.(portable); plain {
		return nil // nothing to compare
	}
	for _, queries := range []int{1, checkQueries} {
		want, got := checkScores(portable{}, cols, bits, queries), checkScores(active, cols, bits, queries)
		for i := range want {
			if math.Float32bits(want[i]) != math.Float32bits(got[i]) {
				return &quant.KernelError{Path: active.name(), Kernel: "scores of quantized keys"}
			}
		}
	}
	return nil
}

// checkScores quantizes random queries and computes their scores on a path.
func checkScores(path kernels, cols, bits, queries int) []float32 {
	rng := rand.New(rand.NewPCG(uint64(bits), 1))
	numbers := func() []float32 {
		x := make([]float32, cols)
		for i := range x {
			x[i] = (rng.Float32() - 0.5) * 8
		}
		return x
	}
	s, a := NewScratch(queries), &Activations{}
	a.Use(make([]float32, FloatsNeeded(cols, queries)), cols, queries)
	for q := range queries {
		a.set(path, q, numbers())
	}
	y := make([]float32, PaddedTokens(queries)*KeyBlock)
	args := &scoreArgs{groups: cols / GroupElems}
	args.useTile(a, 0, y)
	if bits == 4 {
		keys := make([]byte, key4Bytes(cols))
		for row := range KeyBlock {
			PutKey4(keys, row, cols, numbers())
		}
		args.codes, args.next = &keys[0], &keys[0]
		path.scores4(args, s)
		return y[:queries*KeyBlock]
	}
	codes, scales := make([]uint8, KeyBlock*cols), make([]float32, KeyBlock)
	for i := range codes {
		codes[i] = uint8(1 + rng.IntN(255))
	}
	for i := range scales {
		scales[i] = rng.Float32()
	}
	args.codes, args.next, args.scales, args.start = &codes[0], &codes[0], &scales[0], a.startAt(&keyFormat, 0)
	path.scores(args, s)
	return y[:queries*KeyBlock]
}
