package quant

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// ErrKernel says that a kernel does not compute what its portable twin does:
// the processor, a virtual machine or the build is at fault.
var ErrKernel = errors.New("a kernel computes wrong results on this processor")

// KernelError names the kernel. It is an ErrKernel.
type KernelError struct {
	Path   string // as in Features
	Kernel string // what it computes
}

func (e *KernelError) Error() string {
	return fmt.Sprintf("quant: %v: %s of the path %s; the environment variable LLMRUN_CPU=portable avoids it", ErrKernel, e.Kernel, e.Path)
}

// Unwrap makes errors.Is(err, ErrKernel) true.
func (e *KernelError) Unwrap() error { return ErrKernel }

// checkQueries is enough for the kernels that take four queries and those that
// take one.
const checkQueries = 5

// CheckCodes compares the kernels of attention over values in codes, and those
// that round to codes, with their portable twins, on a few fixed random numbers
// for heads of d elements. It takes some tens of microseconds. Bits must be the
// same.
func CheckCodes(d int) error { return check(d, codesFor) }

// CheckFloats is CheckCodes for keys and values in F32 and F16.
func CheckFloats(d int) error { return check(d, floatsFor) }

// check compares what a path computes with what its twin does.
func check(d int, compute func(k kernels, d int) []result) error {
	if _, plain := active.(portable); plain {
		return nil // is its own twin
	}
	want := compute(portable{active.flavour()}, d)
	for i, got := range compute(active, d) {
		if !slices.Equal(want[i].bits, got.bits) {
			return &KernelError{Path: active.name(), Kernel: got.of}
		}
	}
	return nil
}

// result is what a kernel computed, bit by bit.
type result struct {
	of   string
	bits []uint32
}

func resultOf[T ~int8 | ~uint8 | ~int16](of string, codes []T) result {
	r := result{of: of, bits: make([]uint32, len(codes))}
	for i, c := range codes {
		r.bits[i] = uint32(c)
	}
	return r
}

func resultOfFloats(of string, x ...float32) result {
	r := result{of: of, bits: make([]uint32, len(x))}
	for i, v := range x {
		r.bits[i] = math.Float32bits(v)
	}
	return r
}

// numbers draws n numbers, always the same.
func numbers(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = (rng.Float32() - 0.5) * 8
	}
	return x
}

// codesFor is what CheckCodes compares: a block of a history, one after the
// other in integers and floats.
func codesFor(k kernels, d int) (all []result) {
	rng := rand.New(rand.NewPCG(1, 8))
	x := numbers(rng, d)
	keys, pairs, floats := make([]uint8, (d+3)/4*4), make([]int8, 2*d), make([]uint8, d)
	k.quantizeKey8(keys, 4, x, 127.0/4)
	k.quantizePairs8(pairs, x, 127.0/4)
	k.quantizeF8(floats, x, f8Largest/4)
	all = append(all, resultOf("rounding of keys", keys), resultOf("rounding of values", pairs),
		resultOf("rounding to 8-bit floats", floats), result{"largest magnitude", []uint32{k.largestBits(x)}})

	stride := d + 2
	state, scores := numbers(rng, checkQueries*stride), numbers(rng, checkQueries*BlockTokens)
	var scales [BlockTokens]float32
	for i := range scales {
		scales[i] = rng.Float32()
	}
	w, values, bytes := make([]BlockWeights, checkQueries), make([]int8, BlockTokens*d), make([]uint8, BlockTokens*d)
	for i := range values {
		values[i] = int8(rng.Uint32())
		bytes[i] = uint8(values[i])
	}
	for i := range w {
		w[i].Attended = math.MaxUint64 >> (7 * i)
	}
	k.softmaxBlocks(w, scores, &scales, state[d:], stride, nil)
	for i := range w {
		all = append(all, resultOf("softmax", w[i].Codes[:]), resultOfFloats("softmax", w[i].Scale, w[i].Decay))
	}
	k.weightedSumBlock(state, stride, d, w, values, values, BlockTokens/2)
	all = append(all, resultOfFloats("weighted sum of 8-bit values", state...))
	k.weightedSumF8(state, stride, d, w, bytes, bytes, BlockTokens)
	return append(all, resultOfFloats("weighted sum of 8-bit floats", state...))
}

// floatsFor returns what CheckFloats compares. It uses the smallest number of tokens
// that runs every kernel, because the twin's multiply-adds are slow.
func floatsFor(k kernels, d int) (all []result) {
	const tokens = 17
	rng := rand.New(rand.NewPCG(1, 32))
	halves, keys := make([]byte, 2*tokens*d), make([]float32, tokens*d)
	k.roundF16(halves, numbers(rng, tokens*d))
	k.dequant(F16, keys, halves)
	all = append(all, resultOf("rounding to 16 bits", halves), resultOfFloats("conversion of 16 bits", keys...))

	scores, q := make([]float32, checkQueries*tokens), numbers(rng, checkQueries*d)
	k.mulF32(scores, tokens, keys, d, tokens, d, q, d, checkQueries)
	all = append(all, resultOfFloats("scores", scores...))
	for i := range checkQueries {
		p := scores[i*tokens:][:tokens]
		most := k.maxOf(p)
		all = append(all, resultOfFloats("softmax", most, k.expSum(p, most)))
	}
	all = append(all, resultOfFloats("exponentials", scores...))
	k.weightedSum(q, d, scores, tokens, keys, d, tokens, d, checkQueries)
	return append(all, resultOfFloats("weighted sum", q...))
}
