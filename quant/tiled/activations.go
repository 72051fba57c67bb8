package tiled

import (
	"fmt"
	"math"
	"unsafe"
)

// TileTokens is the number of tokens in a full tile of activations.
const TileTokens = 16

// Activations holds the quantized activations of a batch of tokens in the layout
// that kernels read: tiles of TileTokens tokens, in each tile one group after
// another, and in each group one token after another. The width of the last tile
// is the number of remaining tokens, rounded up to a power of two; the padding
// tokens are zero.
type Activations struct {
	cols, tokens int

	codes []int8    // [tile][group][token][GroupElems]; pairs of tokens interleaved for a pairingPath
	scale []float32 // [tile][group][token]
	shift []float32 // [tile][group][token]: -scale·Σ codes, the factor of a min
	// Initial values of integer sums: startBits - zero·Σ codes. This corrects for
	// the zero point of unsigned weight codes and does not depend on the weights.
	start     [len(groupZeros)][]int32 // [zero][tile][group][token]
	halfStart []int32                  // [tile][group][half][token], for halfZero
	// lanes are halfZero·Σ codes of each half in two 16-bit lanes, see lanesOf. Only small-N kernels of a
	// lanesPath read them, so they are set for 2 to TileTokens tokens.
	lanes []int32 // [group][token][half]
}

// groupZeros are the zero points of formats without half groups; halfZero is that
// of Q6_K, from which kernels compute the starts of low-bit formats with half groups. Formats with a
// min have no zero point.
var groupZeros = [...]int32{8, 16, signedZero}

const (
	halfZero   = 32
	signedZero = 128 // zero point of codes that were signed bytes
)

// Integer sums start with startBits, the bit pattern of startFloat = 1.5·2²³, whose
// unit in the last place is 1. The bit pattern startBits+i is therefore the float32
// startFloat+i, and kernels need no integer conversion. They compute i·s as the
// fused (startFloat+i)·s - startFloat·s. This rounds once, like i·s, because
// startFloat·s is exact: scales of weights have at most 19 significant bits.
const (
	startBits  = 0x4B400000
	startFloat = 0x1.8p23
)

// FloatsNeeded returns the number of float32 that Use needs for tokens of cols
// elements.
func FloatsNeeded(cols, tokens int) int {
	groups := paddedTokens(tokens) * (cols / GroupElems)
	return groups*(GroupElems/4+1+1+len(groupZeros)+2) + lanesNeeded(cols, tokens)
}

// lanesNeeded returns the size of Activations.lanes. Larger batches have the memory too, so that
// they never need less than smaller ones.
func lanesNeeded(cols, tokens int) int {
	return 2 * min(paddedTokens(tokens), TileTokens) * (cols / GroupElems)
}

// paddedTokens returns the number of tokens, padding included, in the tiles for n
// tokens.
func paddedTokens(n int) int {
	return n/TileTokens*TileTokens + tileWidth(n%TileTokens)
}

// tileWidth returns n rounded up to a power of two, at most TileTokens.
func tileWidth(n int) int {
	if n == 0 {
		return 0
	}
	width := 1
	for width < n && width < TileTokens {
		width *= 2
	}
	return width
}

// Use prepares a for a batch of tokens with cols elements each. The caller provides
// memory, at least FloatsNeeded floats, and then calls Set for every token.
func (a *Activations) Use(memory []float32, cols, tokens int) {
	need := FloatsNeeded(cols, tokens)
	if len(memory) < need || cols%GroupElems != 0 {
		panic(fmt.Sprintf("tiled: activations [%d, %d] need %d floats, the buffer has %d; columns must be a multiple of %d", tokens, cols, need, len(memory), GroupElems))
	}
	groups := paddedTokens(tokens) * (cols / GroupElems)
	take := func(n int) []float32 {
		part := memory[:n:n]
		memory = memory[n:]
		return part
	}
	a.cols, a.tokens = cols, tokens
	a.codes = asInt8(take(groups * GroupElems / 4))
	a.scale, a.shift = take(groups), take(groups)
	for i := range a.start {
		a.start[i] = asInt32(take(groups))
	}
	a.halfStart = asInt32(take(2 * groups))
	a.lanes = asInt32(take(lanesNeeded(cols, tokens)))
	for t := tokens; t < paddedTokens(tokens); t++ {
		a.Set(t, nil)
	}
}

// tile returns the width of tile i and its offset in scale, shift and start. The
// offset in codes is base·GroupElems and the offset in halfStart is 2·base.
func (a *Activations) tile(i int) (width, base int) {
	return tileWidth(min(TileTokens, a.tokens-i*TileTokens)), i * TileTokens * (a.cols / GroupElems)
}

// startAt returns a pointer to the initial sums for a format at offset at, see tile.
// It returns nil for a format without a zero point.
func (a *Activations) startAt(f *format, at int) *int32 {
	if f.halfGroups() {
		return &a.halfStart[2*at]
	}
	for i, zero := range groupZeros {
		if f.zero == int(zero) {
			return &a.start[i][at]
		}
	}
	return nil
}

// Set quantizes the activations of one token; nil means zeros. Goroutines may set
// different tokens concurrently.
func (a *Activations) Set(token int, x []float32 /* [cols] */) {
	a.set(active, token, x)
}

// set is Set with the kernels of the given path.
func (a *Activations) set(path kernels, token int, x []float32 /* [cols] */) {
	if a.cols == 0 {
		return
	}
	args := a.quantizeArgs(path, token)
	if x == nil {
		args.clear()
		return
	}
	args.x = &x[:a.cols][0]
	path.quantize(args)
}

// quantizeArgs returns the arguments of the quantize kernel for one token, except x.
func (a *Activations) quantizeArgs(path kernels, token int) quantizeArgs {
	width, base := a.tile(token / TileTokens)
	in := token % TileTokens
	at, codes, apart := base+in, (base+in)*GroupElems, codesApart(path, width)
	if apart != pairElems && in%2 == 1 {
		codes += pairElems - GroupElems
	}
	args := quantizeArgs{
		codes: &a.codes[codes], apart: apart, scale: &a.scale[at], shift: &a.shift[at],
		start8: &a.start[0][at], start16: &a.start[1][at], start128: &a.start[2][at],
		halfStart: &a.halfStart[2*base+in],
		groups:    a.cols / GroupElems, width: width,
	}
	if _, ok := path.(lanesPath); ok && a.tokens > 1 && a.tokens <= TileTokens {
		args.lanes = &a.lanes[2*in]
	}
	return args
}

// lanesAt returns a pointer to the lanes of the first group, nil without any.
func (a *Activations) lanesAt() *int32 { return unsafe.SliceData(a.lanes) }

// SetPerTensor quantizes the activations of one token with the given scale for all
// groups, as W8A8 devices do. Codes saturate at ±127. If an element is infinite or
// NaN, so are the scale of its group and all results.
//
// Matmul kernels process the activations like those of Set. SetPerTensor returns the
// float32 bits of the largest magnitude in x, in an order where NaNs are largest.
func (a *Activations) SetPerTensor(token int, x []float32 /* [cols] */, scale float32) (most uint32) {
	if a.cols == 0 {
		return 0
	}
	args := a.quantizeArgs(active, token)
	inverse := 1 / scale
	var codes [GroupElems]int8
	for g := range args.groups {
		group := x[g*GroupElems:][:GroupElems]
		var bits uint32
		for i, v := range group {
			bits = max(bits, math.Float32bits(v)&^signMask)
			codes[i] = roundClamped(float32(v * inverse))
		}
		s := scale
		if bits >= infBits {
			s = math.Float32frombits(bits)
		}
		args.put(g, &codes, s)
		most = max(most, bits)
	}
	return most
}

// roundClamped clamps v to ±127 and rounds it to the nearest integer, ties to even.
func roundClamped(v float32) int8 {
	// The unit in the last place of v+magic is 1, so the addition rounds to integers.
	const magic = 0x1.8p23
	return int8(int32(math.Float32bits(min(max(v, -127), 127)+magic)) - int32(math.Float32bits(magic)))
}
