package tiled

import (
	"fmt"
	"math"
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

	codes []int8    // [tile][group][token][GroupElems]
	scale []float32 // [tile][group][token]
	shift []float32 // [tile][group][token] -scale·Σ codes, what a min is multiplied with
	// Sums of codes, negated: times the zero of a format, that is where a
	// product of unsigned codes begins.
	sums  []int32 // [tile][group][token]
	halfs []int32 // [tile][group][half][token]
}

// FloatsNeeded returns how many float32 Use wants for tokens of cols elements.
func FloatsNeeded(cols, tokens int) int {
	groups := paddedTokens(tokens) * (cols / GroupElems)
	return groups * (GroupElems/4 + 1 + 1 + 1 + 2)
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
	a.sums, a.halfs = asInt32(take(groups)), asInt32(take(2*groups))
	for t := tokens; t < paddedTokens(tokens); t++ {
		a.Set(t, nil)
	}
}

// tile returns the width of a tile and the index of its first group's first
// token in scale, shift and sums. In codes it is GroupElems times, in halfs
// twice as much.
func (a *Activations) tile(i int) (width, base int) {
	return tileWidth(min(TileTokens, a.tokens-i*TileTokens)), i * TileTokens * (a.cols / GroupElems)
}

// Set rounds the activations of one token; nil stands for zeros. Different
// tokens may be set at the same time.
func (a *Activations) Set(token int, x []float32 /* [cols] */) {
	width, base := a.tile(token / TileTokens)
	in := token % TileTokens
	for g := range a.cols / GroupElems {
		at := base + g*width + in
		dst := a.codes[at*GroupElems:][:GroupElems]
		halfs := a.halfs[2*(base+g*width)+in:]
		if x == nil {
			clear(dst)
			a.scale[at], a.shift[at], a.sums[at], halfs[0], halfs[width] = 0, 0, 0, 0, 0
			continue
		}
		scale := roundGroup(dst, x[g*GroupElems:][:GroupElems])
		first, second := sum(dst[:GroupElems/2]), sum(dst[GroupElems/2:])
		halfs[0], halfs[width] = -first, -second
		a.sums[at] = -first - second
		a.scale[at] = scale
		a.shift[at] = float32(-first-second) * scale
	}
}

// roundGroup rounds a group and returns the scale.
func roundGroup(dst []int8, x []float32 /* [GroupElems] */) float32 {
	var most float32
	for _, v := range x {
		if v < 0 {
			v = -v
		}
		if v > most || v != v {
			most = v
		}
	}
	if most == 0 {
		clear(dst)
		return 0
	}
	inverse := 127 / most
	for i, v := range x {
		dst[i] = int8(math.RoundToEven(float64(v * inverse)))
	}
	return most / 127
}

func sum(codes []int8) (n int32) {
	for _, c := range codes {
		n += int32(c)
	}
	return n
}
