package tiled

import (
	"fmt"
	"unsafe"
)

// KeyTile is how many keys are interleaved for Scores, as TileRows are in a
// matrix, and KeyBlock how many it takes at once.
const (
	KeyTile  = TileRows
	KeyBlock = 4 * KeyTile
)

// Keys is a block of 8-bit keys.
type Keys struct {
	Codes  []uint8   // [KeyBlock/KeyTile][cols/4][KeyTile][4], with a zero of 128
	Scales []float32 // [KeyBlock]
}

// scoreArgs is what a score kernel multiplies: a block of keys with a tile of
// queries. Pointers are to the first group.
type scoreArgs struct {
	y      *float32 // [width][KeyBlock], overwritten
	codes  *uint8   // [KeyBlock/KeyTile][groups][planes][KeyTile][laneBytes]
	next   *uint8   // codes that are wanted soon; may be codes
	scales *float32 // [KeyBlock]; nil for keys of 4 bits, which have them inside
	x      *int8    // [groups][width][GroupElems]
	dx     *float32 // [groups][width]
	shift  *float32 // [groups][width]
	start  *int32   // [groups][width]; nil for keys of 4 bits
	groups int
	width  int // 1, 2, 4, 8 or 16
}

// Scores multiplies queries with a block of 8-bit keys. With g over the groups
// in ascending order and acc beginning at +0:
//
//	i   = Σ code·q           over the group; exact
//	acc = fma(float32(i), d, acc)
//	y[q][key] = acc·scale
//
// where the scale is the key's and d the query's for the group. All of a block
// is computed, whatever lies there; y needs room for the queries rounded up to
// PaddedTokens. Reading the first half of next, the codes of the block that will
// follow, is begun on
// the way.
func Scores(y []float32 /* [PaddedTokens(queries), KeyBlock] */, keys Keys, next []uint8, a *Activations, s *Scratch) {
	if len(y) < paddedTokens(a.tokens)*KeyBlock || len(keys.Codes) < KeyBlock*a.cols || len(keys.Scales) < KeyBlock ||
		len(next) < KeyBlock*a.cols || a.cols == 0 {
		panic(fmt.Sprintf("tiled: scores of %d queries of %d elements exceed their slices", a.tokens, a.cols))
	}
	args := &s.score
	*args = scoreArgs{
		codes: &keys.Codes[0], next: &next[0], scales: &keys.Scales[0], groups: a.cols / GroupElems,
	}
	for i := 0; i*TileTokens < a.tokens; i++ {
		args.useTile(a, i, y)
		args.start = a.startAt(&keyFormat, i*TileTokens*args.groups)
		active.scores(args, s)
	}
}

// useTile sets what belongs to tile i of the queries.
func (args *scoreArgs) useTile(a *Activations, i int, y []float32) {
	width, base := a.tile(i)
	args.width = width
	args.y = &y[i*TileTokens*KeyBlock]
	args.x, args.dx, args.shift = &a.codes[base*GroupElems], &a.scale[base], &a.shift[base]
}

// PaddedTokens returns how many rows results for n queries take.
func PaddedTokens(n int) int { return paddedTokens(n) }

// keyFormat is that of the codes: bytes with a zero of 128.
var keyFormat = format{bits: 8, zero: signedZero}

// ones are the scales with which panel kernels give sums as they are.
var ones = func() (all [panelGroups * TileRows]float32) {
	for i := range all {
		all[i] = 1
	}
	return all
}()

// panelScores computes scores with a path's panel kernel.
func panelScores(path kernels, a *scoreArgs, s *Scratch) {
	args := &s.args
	y := unsafe.Slice(a.y, a.width*KeyBlock)
	scales := unsafe.Slice(a.scales, KeyBlock)
	codes := unsafe.Slice(a.codes, KeyBlock*a.groups*GroupElems)
	x := unsafe.Slice(a.x, a.groups*a.width*GroupElems)
	dx, shift := unsafe.Slice(a.dx, a.groups*a.width), unsafe.Slice(a.shift, a.groups*a.width)
	start := unsafe.Slice(a.start, a.groups*a.width)
	for t := range KeyBlock / KeyTile {
		s.use(0, a.width)
		for g := 0; g < a.groups; g += panelGroups {
			*args = kernelArgs{
				sums: &s.sums[0], codes: &codes[(t*a.groups+g)*KeyTile*GroupElems], scales: &ones[0],
				x: &x[g*a.width*GroupElems], dx: &dx[g*a.width], shift: &shift[g*a.width], start: &start[g*a.width],
				groups: min(panelGroups, a.groups-g), width: a.width, halves: 1, zero: signedZero, tiles: 1,
			}
			path.mulPanel(args)
		}
		for q := range a.width {
			out := y[q*KeyBlock+t*KeyTile:][:KeyTile]
			for i, v := range s.sums[q*TileRows:][:TileRows] {
				out[i] = v * scales[t*KeyTile+i]
			}
		}
	}
}

func (k portable) scores(a *scoreArgs, s *Scratch) { panelScores(k, a, s) }
