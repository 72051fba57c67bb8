package tiled

import (
	"fmt"

	"github.com/llmrun/llmrun/quant"
)

// Matrix is a weight matrix in tiles.
type Matrix struct {
	Type       quant.Type
	Rows, Cols int
	Data       []byte // as Pack writes it
}

// Scratch is the working memory of one worker. It must not be used by two
// goroutines at a time.
type Scratch struct {
	panel panel
	sums  []float32 // [tokens][TileRows] results of a tile of rows
	// What kernels are called with; here because it would escape to the heap.
	args kernelArgs
	vec  vecArgs
}

// NewScratch returns scratch memory for batches of up to tokens.
func NewScratch(tokens int) *Scratch {
	return &Scratch{panel: newPanel(), sums: make([]float32, paddedTokens(max(1, tokens))*TileRows)}
}

// Multiply computes y[t][row] for all tokens of a and the rows of tiles t0 to
// t1-1 of w. Disjoint ranges of tiles may be computed at the same time.
func Multiply(y []float32 /* [tokens, w.Rows] */, w *Matrix, t0, t1 int, a *Activations, s *Scratch) {
	f := formats[w.Type]
	if f == nil || a.cols != w.Cols || len(y) < a.tokens*w.Rows || t1 > w.Tiles() {
		panic(fmt.Sprintf("tiled: product of %d rows of %d %s with %d tokens of %d", w.Rows, w.Cols, w.Type, a.tokens, a.cols))
	}
	tileBytes := len(w.Data) / max(1, w.Tiles())
	for t := t0; t < t1; t++ {
		tile := w.Data[t*tileBytes : (t+1)*tileBytes]
		if a.tokens != 1 || !s.multiplyVec(f, w.Type, tile, a) {
			s.multiplyTile(f, w.Type, tile, a)
		}
		s.copyOut(y, w.Rows, t*TileRows, a.tokens)
	}
}

// Tiles returns how many tiles of rows a matrix has.
func (w *Matrix) Tiles() int { return (w.Rows + TileRows - 1) / TileRows }

// multiplyVec computes the sums of one tile of rows for a single token, or
// reports false where the path has no kernel for it.
func (s *Scratch) multiplyVec(f *format, t quant.Type, tile []byte, a *Activations) bool {
	if len(tile) == 0 {
		return false
	}
	s.vec = vecArgs{
		sums: &s.sums[0], tile: &tile[0],
		x: &a.codes[0], dx: &a.scale[0], shift: &a.shift[0], start: a.startAt(f, 0),
		table: f.table, blocks: a.cols / t.BlockElems(),
	}
	return active.mulVec(t, &s.vec)
}

// multiplyTile computes the sums of one tile of rows for all tokens, a panel at
// a time.
func (s *Scratch) multiplyTile(f *format, t quant.Type, tile []byte, a *Activations) {
	s.clearSums(a.tokens)
	blockBytes := t.BlockBytes() * TileRows
	blockGroups := t.BlockElems() / GroupElems
	panelBlocks := panelGroups / blockGroups
	blocks := a.cols / t.BlockElems()
	for b := 0; b < blocks; b += panelBlocks {
		n := min(panelBlocks, blocks-b)
		active.decode(&s.panel, f, tile[b*blockBytes:(b+n)*blockBytes], n)
		s.multiplyCodes(f, &s.panel.codes[0], a, b*blockGroups, n*blockGroups)
	}
}

// clearSums makes room for the sums of that many tokens.
func (s *Scratch) clearSums(tokens int) {
	n := paddedTokens(tokens) * TileRows
	if len(s.sums) < n {
		s.sums = make([]float32, n)
	}
	clear(s.sums[:n])
}

// multiplyCodes adds the products of n groups of codes, which begin at group g
// of the row, to the sums of all tokens. Their scales and mins are the panel's.
func (s *Scratch) multiplyCodes(f *format, codes *uint8 /* [n][planes][TileRows][laneBytes] */, a *Activations, g, n int) {
	args := &s.args
	*args = kernelArgs{codes: codes, scales: &s.panel.scales[0], groups: n, halves: 1, zero: f.zero}
	if f.hasMin() {
		args.mins = &s.panel.mins[0]
	}
	if f.halfGroups() {
		args.halves = 2
	}
	for i := 0; i*TileTokens < a.tokens; i++ {
		width, base := a.tile(i)
		at := base + g*width
		args.width = width
		args.sums = &s.sums[i*TileTokens*TileRows]
		args.x, args.dx, args.shift = &a.codes[at*GroupElems], &a.scale[at], &a.shift[at]
		args.start = a.startAt(f, at)
		active.mulPanel(args)
	}
}

// copyOut writes the sums of a tile to the rows of the result that they are.
func (s *Scratch) copyOut(y []float32, rows, row, tokens int) {
	n := min(TileRows, rows-row)
	for t := range tokens {
		copy(y[t*rows+row:][:n], s.sums[t*TileRows:][:n])
	}
}
