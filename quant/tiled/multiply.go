package tiled

import (
	"cmp"
	"fmt"
	"math"
	"unsafe"

	"github.com/llmrun/llmrun/quant"
)

// Matrix is a weight matrix in tiles.
type Matrix struct {
	Type       quant.Type
	Rows, Cols int
	Data       []byte // tiles, as Pack writes them
	// First is the index of the first tile in Data. Data may hold only some tiles
	// of a matrix that the engine streams; Multiply must not be called for others.
	First int
	// Stride is the distance in floats between the results of consecutive tokens,
	// if the matrix is a part of a larger one; 0 means Rows.
	Stride int
}

// Scratch is the working memory of one worker. Only one goroutine may use it at
// a time.
type Scratch struct {
	panel panel
	score scoreArgs // a local variable would escape to the heap
	// results buffers the sums of several tiles of rows before copyOut writes them.
	// In y, the results of consecutive tokens are a large fixed stride apart; writing
	// them tile by tile would evict cache lines before they are full.
	results []float32 // [resultTiles][tokens][TileRows]
	sums    []float32 // [tokens][TileRows] of the current tile, a part of results
	// Arguments of kernels; local variables would escape to the heap.
	args     kernelArgs
	small    smallArgs
	copy     copyArgs
	products []int32  // integer sums of the AMX kernels
	wide     []uint16 // activations in bfloat16, for a widePath
}

const (
	// resultTiles is the number of tiles whose results copyOut writes together.
	resultTiles = 8
	// wideTiles replaces resultTiles for a widePath, which widens the activations
	// once per wideTiles tiles. With 8 tiles, widening would take 10 % of the time.
	wideTiles = 32
	// smallTiles replaces resultTiles for GEMV and small-N GEMM. One kernel call
	// processes up to smallTiles tiles: enough to make the call overhead
	// negligible, few enough not to delay the garbage collector, which cannot
	// preempt a kernel.
	smallTiles = 64
)

// NewScratch returns scratch memory for batches of at most tokens tokens.
func NewScratch(tokens int) *Scratch {
	return NewScratchIn(make([]float32, ScratchFloats(tokens, false)), tokens, false)
}

// NewScratchIn is NewScratch in memory that the caller provides: at least
// ScratchFloats(tokens, wide) floats. wide must be true if Wide is true for the type
// of any matrix. NewScratchIn itself allocates about 50 KB whose size does not
// depend on the number of tokens.
func NewScratchIn(memory []float32, tokens int, wide bool) *Scratch {
	n := resultFloats(tokens, wide)
	return &Scratch{
		panel: newPanel(), products: make([]int32, 2*TileTokens*TileRows),
		results: memory[:n:n], wide: asUint16(memory[n:]),
	}
}

// ScratchFloats returns the number of float32 that NewScratchIn needs.
func ScratchFloats(tokens int, wide bool) int {
	n := resultFloats(tokens, wide)
	if wide {
		n += wideElems(tokens) / 2
	}
	return n
}

// resultFloats returns the size of Scratch.results for every number of tokens up
// to tokens.
func resultFloats(tokens int, wide bool) int {
	few := min(tokens, maxSmallTokens) // small batches buffer more tiles and may need more
	return max(tilesTogether(few, false)*paddedTokens(max(1, few)), tilesTogether(tokens, wide)*paddedTokens(tokens)) * TileRows
}

// Wide reports whether the active path widens large batches of activations to
// bfloat16 for weights of type t, which needs more scratch memory.
func Wide(t quant.Type) bool { return isWide(formats[t], math.MaxInt) }

func isWide(f *format, tokens int) bool {
	path, wide := active.(widePath)
	return wide && f != nil && path.wide(f, tokens)
}

// wideGroups is the number of groups in a bfloat16 panel. The panel takes 16 KiB
// of the L1 cache and a tile of tokens takes 8 KiB. Twice as many groups make the
// matmul 17 % slower.
const wideGroups = panelGroups / 4

// wideElems returns the number of widened activations per panel.
func wideElems(tokens int) int { return paddedTokens(tokens) * wideGroups * GroupElems }

// reserve grows results to hold the sums of the given number of tiles.
func (s *Scratch) reserve(tiles, tokens int) {
	if size := tiles * paddedTokens(tokens) * TileRows; len(s.results) < size {
		s.results = make([]float32, size)
	}
}

// use points sums at the i-th tile of results and clears it.
func (s *Scratch) use(i, tokens int) {
	s.reserve(i+1, tokens)
	n := paddedTokens(tokens) * TileRows
	s.sums = s.results[i*n : (i+1)*n]
	clear(s.sums)
}

// Multiply computes y[token][row] = Σ w[row][k]·a[token][k] for all tokens of a and
// the rows of tiles t0 to t1-1 of w. Goroutines may compute disjoint ranges of tiles
// concurrently, each with its own Scratch.
func Multiply(y []float32 /* [tokens, w.Rows], or rows of w.Stride */, w *Matrix, t0, t1 int, a *Activations, s *Scratch) {
	w.multiply(y, formats[w.Type], t0, t1, a, s)
}

// stride returns the distance in floats between the results of consecutive tokens.
func (w *Matrix) stride() int { return cmp.Or(w.Stride, w.Rows) }

// multiply is Multiply for codes of format f, which has the size and the kernels of w.Type.
func (w *Matrix) multiply(y []float32, f *format, t0, t1 int, a *Activations, s *Scratch) {
	stride := w.stride()
	if f == nil || a.cols != w.Cols || stride < w.Rows || a.tokens > 0 && len(y) < (a.tokens-1)*stride+w.Rows || t1 > w.Tiles() {
		panic(fmt.Sprintf("tiled: invalid matmul of a %s matrix [%d, %d] with activations [%d, %d]: tiles %d to %d, stride %d, %d results", w.Type, w.Rows, w.Cols, a.tokens, a.cols, t0, t1, stride, len(y)))
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
		case a.tokens > mostSmall(active, w.Type) || !s.multiplySmall(f, w.Type, tiles, n, a):
			s.multiplyTiles(f, w.Type, tiles, n, a)
		}
		s.copyOut(y, stride, w.Rows, t*TileRows, n, a.tokens)
	}
}

// multiplyTiles computes the sums of n tiles of rows for all tokens with the GEMM
// kernels.
func (s *Scratch) multiplyTiles(f *format, t quant.Type, tiles []byte, n int, a *Activations) {
	size := len(tiles) / n
	for i := range n {
		s.use(i, a.tokens)
		s.multiplyTile(f, t, tiles[i*size:(i+1)*size], a)
	}
}

// tilesTogether returns the number of tiles whose results copyOut writes together.
func tilesTogether(tokens int, wide bool) int {
	switch {
	case wide:
		return wideTiles
	case tokens > maxSmallTokens:
		return resultTiles
	}
	return smallTiles
}

// Tiles returns the number of tiles of the whole matrix.
func (w *Matrix) Tiles() int { return (w.Rows + TileRows - 1) / TileRows }

// tileBytes returns the size of a tile of rows.
func (w *Matrix) tileBytes() int {
	return w.Cols / w.Type.BlockElems() * w.Type.BlockBytes() * TileRows
}

// maxSmallTokens is the largest batch for GEMV and small-N GEMM kernels, which read
// tiles without a panel, except on a wholeTilePath. Up to this size, memory bandwidth limits
// the matmul.
const maxSmallTokens = 8

// mostSmall returns the largest batch for a path's small-N GEMM kernel of a type.
func mostSmall(path kernels, t quant.Type) int {
	if path, ok := path.(wholeTilePath); ok && path.takesWholeTiles(t) {
		return TileTokens
	}
	return maxSmallTokens
}

// multiplySmall computes the sums of n tiles of rows for at most mostSmall
// tokens. It returns false if the path has no kernel for them.
func (s *Scratch) multiplySmall(f *format, t quant.Type, tiles []byte, n int, a *Activations) bool {
	if len(tiles) == 0 || a.tokens == 0 {
		return false
	}
	s.use(0, a.tokens)
	s.small = smallArgs{
		sums: &s.sums[0], tile: &tiles[0], tiles: n, size: len(tiles) / n,
		x: &a.codes[0], dx: &a.scale[0], shift: &a.shift[0], start: a.startAt(f, 0), lanes: a.lanesAt(),
		table: f.table, blocks: a.cols / t.BlockElems(), width: tileWidth(a.tokens), panel: &s.panel,
	}
	return active.mulSmall(t, &s.small)
}

// multiplyTile computes the sums of one tile of rows for all tokens. It decodes
// one panel after another and multiplies each with all tokens.
func (s *Scratch) multiplyTile(f *format, t quant.Type, tile []byte, a *Activations) {
	blockBytes := t.BlockBytes() * TileRows
	blockGroups := t.BlockElems() / GroupElems
	panelBlocks := panelGroups / blockGroups
	path, splitting := active.(splittingPath)
	s.panel.reset(a.tokens)
	if s.panel.split = splitting && path.splits(f, a.tokens); s.panel.split {
		panelBlocks /= 2
	}
	blocks := a.cols / t.BlockElems()
	for b := 0; b < blocks; b += panelBlocks {
		n := min(panelBlocks, blocks-b)
		active.decode(&s.panel, f, tile[b*blockBytes:(b+n)*blockBytes], n)
		s.multiplyPanel(f, a, b*blockGroups, n*blockGroups)
	}
}

// multiplyPanel adds the products of the panel's n groups, groups g to g+n-1 of the
// row, to the sums of all tokens.
func (s *Scratch) multiplyPanel(f *format, a *Activations, g, n int) {
	args := &s.args
	*args = kernelArgs{
		groups: n, halves: 1, zero: f.zero, nibbles: f.table == &evenly,
		skip: a.cols/GroupElems - n, products: &s.products[0],
	}
	args.usePanel(&s.panel)
	if f.hasMin() {
		args.mins = &s.panel.mins[0]
	}
	if f.halfGroups() {
		args.halves = 2
	}
	if f.halfGroups() || args.split {
		args.factors = &s.panel.factors[0]
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

// copyArgs are the arguments of a copy kernel, which copies the sums of complete
// tiles of rows from Scratch.results to the output:
//
//	y[token·rows + tile·TileRows + row] = from[tile·size + token·TileRows + row]
type copyArgs struct {
	y      *float32 // output of the first token
	rows   int      // floats from one token's output to the next
	from   *float32 // [tiles][size]; the kernel reads [tokens][TileRows] of each
	size   int      // floats per tile
	tiles  int
	tokens int
}

// copyOut copies the buffered sums of tiles from row on to y. The results of
// consecutive tokens in y are stride floats apart.
func (s *Scratch) copyOut(y []float32, stride, rows, row, tiles, tokens int) {
	if tokens == 0 {
		return
	}
	size := paddedTokens(tokens) * TileRows
	whole := min(tiles, (rows-row)/TileRows)
	if whole > 0 {
		s.copy = copyArgs{y: &y[row], rows: stride, from: &s.results[0], size: size, tiles: whole, tokens: tokens}
		active.copyResults(&s.copy)
	}
	if whole == tiles {
		return
	}
	for t := range tokens { // the last tile has fewer than TileRows rows
		copy(y[t*stride+row+whole*TileRows:t*stride+rows], s.results[whole*size+t*TileRows:])
	}
}

func (portable) copyResults(a *copyArgs) {
	y := unsafe.Slice(a.y, (a.tokens-1)*a.rows+a.tiles*TileRows)
	from := unsafe.Slice(a.from, (a.tiles-1)*a.size+a.tokens*TileRows)
	for t := range a.tokens {
		for i := range a.tiles {
			copy(y[t*a.rows+i*TileRows:][:TileRows], from[i*a.size+t*TileRows:][:TileRows])
		}
	}
}
