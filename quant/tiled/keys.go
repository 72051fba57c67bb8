package tiled

import (
	"fmt"
	"unsafe"
)

// KeyTile is the number of interleaved keys, like TileRows for a matrix. KeyBlock is
// the number of keys that one call of Scores processes.
const (
	KeyTile  = TileRows
	KeyBlock = 4 * KeyTile
)

// Keys is a block of 8-bit keys.
type Keys struct {
	Codes  []uint8   // [KeyBlock/KeyTile][cols/4][KeyTile][4], zero point 128
	Scales []float32 // [KeyBlock]
}

// scoreArgs are the arguments of a score kernel, which multiplies a block of keys
// with a tile of queries. Pointers are to the first group.
type scoreArgs struct {
	y      *float32 // [width][KeyBlock], overwritten
	codes  *uint8   // [KeyBlock/KeyTile][groups][planes][KeyTile][laneBytes]; a tiled Key4 matrix for 4-bit keys
	next   *uint8   // codes to prefetch; may equal codes
	scales *float32 // [KeyBlock]; nil for 4-bit keys, whose tiles contain the scales
	x      *int8    // [groups][width][GroupElems]
	dx     *float32 // [groups][width]
	shift  *float32 // [groups][width]
	start  *int32   // [groups][width]; nil for 4-bit keys
	groups int
	width  int // 1, 2, 4, 8 or 16
}

// Scores computes the dot products of all queries in a with a block of 8-bit keys.
// It accumulates over the groups in ascending order, starting with acc = +0:
//
//	i   = Σ (code-128)·q     over the group; exact
//	acc = fma(float32(i), d, acc)
//	y[q][key] = acc·scale
//
// where scale is the key's scale and d is the query's scale in the group. Scores
// computes all KeyBlock keys of the block, valid or not, and writes PaddedTokens rows
// of y. It prefetches the first half of next, the codes of the block that the caller
// scores next.
func Scores(y []float32 /* [PaddedTokens(queries), KeyBlock] */, keys Keys, next []uint8, a *Activations, s *Scratch) {
	if len(y) < paddedTokens(a.tokens)*KeyBlock || len(keys.Codes) < KeyBlock*a.cols || len(keys.Scales) < KeyBlock ||
		len(next) < KeyBlock*a.cols || a.cols == 0 {
		panic(fmt.Sprintf("tiled: scores of queries [%d, %d]: keys, scales, next or results are too short", a.tokens, a.cols))
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

// useTile points the arguments to tile i of the queries in a and its scores in y.
func (args *scoreArgs) useTile(a *Activations, i int, y []float32) {
	width, base := a.tile(i)
	args.width = width
	args.y = &y[i*TileTokens*KeyBlock]
	args.x, args.dx, args.shift = &a.codes[base*GroupElems], &a.scale[base], &a.shift[base]
}

// PaddedTokens returns the number of rows in the result of Scores for n queries.
func PaddedTokens(n int) int { return paddedTokens(n) }

// keyFormat is the format of 8-bit keys: codes with zero point 128.
var keyFormat = format{bits: 8, zero: signedZero}

// ones are unit scales for panel kernels; panelScores applies the scales of keys
// afterwards.
var ones = func() (all [panelGroups * TileRows]float32) {
	for i := range all {
		all[i] = 1
	}
	return all
}()

// panelScores computes Scores for one tile of queries with a path's GEMM kernel.
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
