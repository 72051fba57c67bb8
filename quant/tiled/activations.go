package tiled

import (
	"fmt"
)

// TileTokens is the most tokens that a kernel multiplies with a tile of
// weights at once.
const TileTokens = 16

// Activations are the rounded activations of some tokens, arranged as the
// kernels read them: tiles of TileTokens tokens, in a tile group after group,
// and in a group token after token. The last tile is only as wide as the
// smallest power of two that takes the tokens that are left; tokens that fill
// it up are zero.
type Activations struct {
	cols, tokens int

	codes []int8    // [tile][group][token][GroupElems], or pairs of tokens in turns
	scale []float32 // [tile][group][token]
	shift []float32 // [tile][group][token] -scale·Σ codes, what a min is multiplied with
	// Where integer sums begin: startBits less zero·Σ codes, which is what a sum
	// of unsigned codes is too large by. It depends on the tokens alone.
	start     [len(groupZeros)][]int32 // [zero][tile][group][token]
	halfStart []int32                  // [tile][group][half][token] for halfZero
}

// groupZeros are the zeros of formats with one scale for a group, halfZero
// that of the format with two. Formats with a min have no zero.
var groupZeros = [...]int32{8, 16, signedZero}

const (
	halfZero   = 32
	signedZero = 128 // codes less this are signed bytes
)

// Integer sums begin with startBits, which are the bits of startFloat, the
// float32 whose last bit stands for one. So a sum i, added to these bits, is
// also added to the number, and needs no conversion: the product i·s is the
// fused (startFloat+i)·s - startFloat·s, rounded once like i·s because the
// second product is exact (scales of weights have at most 19 bits).
const (
	startBits  = 0x4B400000
	startFloat = 0x1.8p23
)

// FloatsNeeded returns how many float32 Use wants for tokens of cols elements.
func FloatsNeeded(cols, tokens int) int {
	groups := paddedTokens(tokens) * (cols / GroupElems)
	return groups * (GroupElems/4 + 1 + 1 + len(groupZeros) + 2)
}

// paddedTokens returns how many tokens the tiles of n tokens have room for.
func paddedTokens(n int) int {
	return n/TileTokens*TileTokens + tileWidth(n%TileTokens)
}

// tileWidth returns the width of a tile of n tokens.
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

// Use makes a hold tokens of cols elements in memory that the caller lends, at
// least FloatsNeeded floats. Every token must then be Set.
func (a *Activations) Use(memory []float32, cols, tokens int) {
	need := FloatsNeeded(cols, tokens)
	if len(memory) < need || cols%GroupElems != 0 {
		panic(fmt.Sprintf("tiled: %d floats for %d tokens of %d elements", len(memory), tokens, cols))
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
	for t := tokens; t < paddedTokens(tokens); t++ {
		a.Set(t, nil)
	}
}

// tile returns the width of a tile and the index of its first group's first
// token in scale, shift and start. In codes it is GroupElems times, in halfStart
// twice as much.
func (a *Activations) tile(i int) (width, base int) {
	return tileWidth(min(TileTokens, a.tokens-i*TileTokens)), i * TileTokens * (a.cols / GroupElems)
}

// startAt returns where sums for a format begin, from the group on whose first
// token has index at; nil for a format without a zero.
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

// Set rounds the activations of one token; nil stands for zeros. Different
// tokens may be set at the same time.
func (a *Activations) Set(token int, x []float32 /* [cols] */) {
	a.set(active, token, x)
}

// set is Set for the kernels of a path.
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

// quantizeArgs returns where a token's numbers go.
func (a *Activations) quantizeArgs(path kernels, token int) quantizeArgs {
	width, base := a.tile(token / TileTokens)
	in := token % TileTokens
	at, codes, apart := base+in, (base+in)*GroupElems, codesApart(path, width)
	if apart != pairElems && in%2 == 1 {
		codes += pairElems - GroupElems
	}
	return quantizeArgs{
		codes: &a.codes[codes], apart: apart, scale: &a.scale[at], shift: &a.shift[at],
		start8: &a.start[0][at], start16: &a.start[1][at], start128: &a.start[2][at],
		halfStart: &a.halfStart[2*base+in],
		groups:    a.cols / GroupElems, width: width,
	}
}
