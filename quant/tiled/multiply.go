package tiled

import (
	"cmp"
	"fmt"
	"math"

	"github.com/llmrun/llmrun/quant"
)

// Matrix is a weight matrix in tiles.
type Matrix struct {
	Type       quant.Type
	Rows, Cols int
	Data       []byte // as Pack writes it
	// First is the tile that Data begins with. Data may hold a part of the tiles
	// only, while a large matrix passes through memory; no others are asked for.
	First int
	// Stride is how far the results of two tokens lie apart, in floats, where the
	// matrix is a part of a larger one; 0 = Rows.
	Stride int
}

// Scratch is the working memory of one worker. It must not be used by two
// goroutines at a time.
type Scratch struct {
	panel panel
	score scoreArgs // here because it would escape to the heap
	// Results of some tiles of rows, which are written out together: a token's
	// results lie far apart from the next token's, and the same distance apart,
	// so that writing one cache line at a time drives the others out.
	results []float32 // [resultTiles][tokens][TileRows]
	sums    []float32 // [tokens][TileRows] those of the present tile
	// What kernels are called with; here because it would escape to the heap.
	args     kernelArgs
	small    smallArgs
	copy     copyArgs
	products []int32  // of the kernels that keep sums of groups in memory
	wide     []uint16 // tokens of the kernels that multiply bfloat16 numbers
}

const (
	// resultTiles is how many tiles' results are written out together.
	resultTiles = 8
	// wideTiles is that for a widePath. Bringing the tokens to another form is once
	// for all of these tiles; for 8 it takes a tenth of the time.
	wideTiles = 32
	// smallTiles is that for the few tokens that are multiplied straight from tiles,
	// and how many tiles a kernel is called for: more than a caller would notice
	// the calls of, and fewer than keep the thread from the garbage collector.
	smallTiles = 64
)

// NewScratch returns scratch memory for batches of up to tokens.
func NewScratch(tokens int) *Scratch {
	return NewScratchIn(make([]float32, ScratchFloats(tokens, false)), tokens, false)
}

// NewScratchIn is NewScratch in memory that the caller lends, ScratchFloats for the
// same tokens; wide says whether any weights will be that are Wide. What does not
// depend on the tokens, some 50 KB, is not in it.
func NewScratchIn(memory []float32, tokens int, wide bool) *Scratch {
	n := resultFloats(tokens, wide)
	return &Scratch{
		panel: newPanel(), products: make([]int32, 2*TileTokens*TileRows),
		results: memory[:n:n], wide: asUint16(memory[n:]),
	}
}

// ScratchFloats returns how many float32 NewScratchIn wants.
func ScratchFloats(tokens int, wide bool) int {
	n := resultFloats(tokens, wide)
	if wide {
		n += wideElems(tokens) / 2
	}
	return n
}

// resultFloats is what results take that are written out together, for any number
// of tokens up to the greatest.
func resultFloats(tokens int, wide bool) int {
	few := min(tokens, maxSmallTokens) // either may take more
	return max(tilesTogether(few, false)*paddedTokens(max(1, few)), tilesTogether(tokens, wide)*paddedTokens(tokens)) * TileRows
}

// Wide reports whether this processor brings tokens to another form where it
// multiplies many of them with weights of a type, which takes memory.
func Wide(t quant.Type) bool { return isWide(formats[t], math.MaxInt) }

func isWide(f *format, tokens int) bool {
	path, wide := active.(widePath)
	return wide && f != nil && path.wide(f, tokens)
}

// wideGroups is how many groups a panel of bfloat16 numbers has. It takes 16 KiB of
// a first-level cache, and a tile of tokens 8 KiB; with twice as many groups the
// product is a sixth slower.
const wideGroups = panelGroups / 4

// wideElems is how many bfloat16 numbers the tokens of a panel are.
func wideElems(tokens int) int { return paddedTokens(tokens) * wideGroups * GroupElems }

// reserve has room for the results of so many tiles.
func (s *Scratch) reserve(tiles, tokens int) {
	if size := tiles * paddedTokens(tokens) * TileRows; len(s.results) < size {
		s.results = make([]float32, size)
	}
}

// use makes sums the place for the results of tile i of those that are written
// out together. It is cleared.
func (s *Scratch) use(i, tokens int) {
	s.reserve(i+1, tokens)
	n := paddedTokens(tokens) * TileRows
	s.sums = s.results[i*n : (i+1)*n]
	clear(s.sums)
}

// Multiply computes y[t][row] for all tokens of a and the rows of tiles t0 to
// t1-1 of w. Disjoint ranges of tiles may be computed at the same time.
func Multiply(y []float32 /* [tokens, w.Rows], or rows of w.Stride */, w *Matrix, t0, t1 int, a *Activations, s *Scratch) {
	f := formats[w.Type]
	stride := cmp.Or(w.Stride, w.Rows)
	if f == nil || a.cols != w.Cols || stride < w.Rows || a.tokens > 0 && len(y) < (a.tokens-1)*stride+w.Rows || t1 > w.Tiles() {
		panic(fmt.Sprintf("tiled: product of %d rows of %d %s with %d tokens of %d", w.Rows, w.Cols, w.Type, a.tokens, a.cols))
	}
	wide := isWide(f, a.tokens)
	tileBytes, together := w.tileBytes(), tilesTogether(a.tokens, wide)
	s.reserve(min(together, t1-t0), max(1, a.tokens))
	for t := t0; t < t1; t += together {
		n := min(together, t1-t)
		tiles := w.Data[(t-w.First)*tileBytes : (t-w.First+n)*tileBytes]
		switch {
		case wide:
			active.(widePath).mulWide(s, w.Type, tiles, n, a)
		case a.tokens > maxSmallTokens || !s.multiplySmall(f, w.Type, tiles, n, a):
			s.multiplyTiles(f, w.Type, tiles, n, a)
		}
		s.copyOut(y, stride, w.Rows, t*TileRows, n, a.tokens)
	}
}

// multiplyTiles computes the sums of n tiles of rows, one after the other.
func (s *Scratch) multiplyTiles(f *format, t quant.Type, tiles []byte, n int, a *Activations) {
	size := len(tiles) / n
	for i := range n {
		s.use(i, a.tokens)
		s.multiplyTile(f, t, tiles[i*size:(i+1)*size], a)
	}
}

// tilesTogether returns how many tiles' results are written out together.
func tilesTogether(tokens int, wide bool) int {
	switch {
	case wide:
		return wideTiles
	case tokens > maxSmallTokens:
		return resultTiles
	}
	return smallTiles
}

// Tiles returns how many tiles of rows a matrix has.
func (w *Matrix) Tiles() int { return (w.Rows + TileRows - 1) / TileRows }

// tileBytes returns the size of a tile of rows.
func (w *Matrix) tileBytes() int {
	return w.Cols / w.Type.BlockElems() * w.Type.BlockBytes() * TileRows
}

// maxSmallTokens is how many tokens are multiplied straight from tiles where a path
// can: so few that this takes hardly longer than reading the tiles.
const maxSmallTokens = 8

// multiplySmall computes the sums of n tiles of rows for a few tokens, or reports
// false where the path has no kernel for them.
func (s *Scratch) multiplySmall(f *format, t quant.Type, tiles []byte, n int, a *Activations) bool {
	if len(tiles) == 0 || a.tokens == 0 {
		return false
	}
	s.use(0, a.tokens)
	s.small = smallArgs{
		sums: &s.sums[0], tile: &tiles[0], tiles: n, size: len(tiles) / n,
		x: &a.codes[0], dx: &a.scale[0], shift: &a.shift[0], start: a.startAt(f, 0),
		table: f.table, blocks: a.cols / t.BlockElems(), width: tileWidth(a.tokens), panel: &s.panel,
	}
	return active.mulSmall(t, &s.small)
}

// multiplyTile computes the sums of one tile of rows for all tokens, a panel at
// a time.
func (s *Scratch) multiplyTile(f *format, t quant.Type, tile []byte, a *Activations) {
	blockBytes := t.BlockBytes() * TileRows
	blockGroups := t.BlockElems() / GroupElems
	panelBlocks := panelGroups / blockGroups
	s.panel.tokens, s.panel.centred = a.tokens, false
	blocks := a.cols / t.BlockElems()
	for b := 0; b < blocks; b += panelBlocks {
		n := min(panelBlocks, blocks-b)
		active.decode(&s.panel, f, tile[b*blockBytes:(b+n)*blockBytes], n)
		s.multiplyCodes(f, &s.panel.codes[0], a, b*blockGroups, n*blockGroups)
	}
}

// multiplyCodes adds the products of n groups of codes, which begin at group g
// of the row, to the sums of all tokens. Their scales and mins are the panel's.
func (s *Scratch) multiplyCodes(f *format, codes *uint8 /* [n][planes][TileRows][laneBytes] */, a *Activations, g, n int) {
	args := &s.args
	*args = kernelArgs{
		codes: codes, scales: &s.panel.scales[0], groups: n, halves: 1, zero: f.zero,
		centred: s.panel.centred, skip: a.cols/GroupElems - n, products: &s.products[0],
	}
	if f.hasMin() {
		args.mins = &s.panel.mins[0]
	}
	if f.halfGroups() {
		args.halves, args.factors = 2, &s.panel.factors[0]
	}
	for i := 0; i*TileTokens < a.tokens; i += args.tiles {
		width, base := a.tile(i)
		at := base + g*width
		args.width, args.tiles = width, 1
		if args.centred && width == TileTokens {
			args.tiles = paddedTokens(a.tokens)/TileTokens - i
		}
		args.sums = &s.sums[i*TileTokens*TileRows]
		args.x, args.dx, args.shift = &a.codes[at*GroupElems], &a.scale[at], &a.shift[at]
		args.start = a.startAt(f, at)
		active.mulPanel(args)
	}
}
