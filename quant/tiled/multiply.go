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
}

// NewScratch returns scratch memory for batches of up to tokens.
func NewScratch(tokens int) *Scratch {
	return &Scratch{panel: newPanel(), sums: make([]float32, paddedTokens(tokens)*TileRows)}
}

// kernelArgs is what a matrix kernel multiplies: some groups of a tile of
// weights with a tile of tokens. Pointers are to the first group.
type kernelArgs struct {
	sums   *float32 // [width][TileRows], added to
	codes  *uint8   // [groups][planes][TileRows][laneBytes]
	scales *float32 // [groups][halves][TileRows]
	mins   *float32 // [groups][TileRows], nil = none
	x      *int8    // [groups][width][GroupElems]
	dx     *float32 // [groups][width]
	shift  *float32 // [groups][width]
	less   *int32   // [groups][halves][width]
	groups int
	width  int
	halves int
	zero   int // log2 of the format's zero; 32 stands for a zero of 0
}

// Multiply computes y[t][row] for all tokens of a and the rows of tiles t0 to
// t1-1 of w. Disjoint ranges of tiles may be computed at the same time.
func Multiply(y []float32 /* [tokens, w.Rows] */, w *Matrix, t0, t1 int, a *Activations, s *Scratch) {
	f := formats[w.Type]
	if f == nil || a.cols != w.Cols || len(y) < a.tokens*w.Rows || t1 > w.Tiles() {
		panic(fmt.Sprintf("tiled: product of %d rows of %d %s with %d tokens of %d", w.Rows, w.Cols, w.Type, a.tokens, a.cols))
	}
	tileBytes := len(w.Data) / w.Tiles()
	for t := t0; t < t1; t++ {
		tile := w.Data[t*tileBytes : (t+1)*tileBytes]
		if a.tokens > 1 || !active.mulVec(s.sums, w.Type, tile, a) {
			s.multiplyTile(f, w.Type, tile, a)
		}
		s.copyOut(y, w.Rows, t*TileRows, a.tokens)
	}
}

// Tiles returns how many tiles of rows a matrix has.
func (w *Matrix) Tiles() int { return (w.Rows + TileRows - 1) / TileRows }

// multiplyTile computes the sums of one tile of rows for all tokens, a panel at
// a time.
func (s *Scratch) multiplyTile(f *format, t quant.Type, tile []byte, a *Activations) {
	if need := paddedTokens(a.tokens) * TileRows; len(s.sums) < need {
		s.sums = make([]float32, need)
	}
	clear(s.sums[:paddedTokens(a.tokens)*TileRows])
	blockGroups := t.BlockElems() / GroupElems
	blockBytes := t.BlockBytes() * TileRows
	groups := a.cols / GroupElems
	for g := 0; g < groups; g += panelGroups {
		n := min(panelGroups, groups-g)
		for i := 0; i < n; i += blockGroups {
			active.decode(&s.panel, f, tile[(g+i)/blockGroups*blockBytes:][:blockBytes], i)
		}
		s.multiplyPanel(f, a, g, n)
	}
}

// multiplyPanel adds the products of the panel's n groups, which begin at
// group g of the row, to the sums of all tokens.
func (s *Scratch) multiplyPanel(f *format, a *Activations, g, n int) {
	args := kernelArgs{
		codes: &s.panel.codes[0], scales: &s.panel.scales[0],
		groups: n, halves: 1, zero: f.zeroShift(),
	}
	if f.hasMin() {
		args.mins = &s.panel.mins[0]
	}
	for i := 0; i*TileTokens < a.tokens; i++ {
		width, base := a.tile(i)
		at := base + g*width
		args.width = width
		args.sums = &s.sums[i*TileTokens*TileRows]
		args.x, args.dx, args.shift = &a.codes[at*GroupElems], &a.scale[at], &a.shift[at]
		args.less = &a.sums[at]
		if f.halfGroups() {
			args.halves, args.less = 2, &a.halfs[2*at]
		}
		active.mulPanel(&args)
	}
}

// zeroShift returns the logarithm of the zero, or 32, by which every number is
// shifted out.
func (f *format) zeroShift() int {
	shift := 0
	for 1<<shift < f.zero {
		shift++
	}
	if f.zero == 0 {
		return 32
	}
	return shift
}

// copyOut writes the sums of a tile to the rows of the result that they are.
func (s *Scratch) copyOut(y []float32, rows, row, tokens int) {
	n := min(TileRows, rows-row)
	for t := range tokens {
		copy(y[t*rows+row:][:n], s.sums[t*TileRows:][:n])
	}
}
