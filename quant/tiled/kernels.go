package tiled

import (
	"unsafe"

	"github.com/llmrun/llmrun/quant"
)

// kernels is one path: what has an implementation for each instruction set. A
// path embeds the portable one and overrides what it does better; results are
// the same to the last bit. Kernels are stateless and trust the shapes that
// their arguments state.
type kernels interface {
	// name is the path's name in quant.Features.
	name() string
	// quantize rounds the activations of a token.
	quantize(a quantizeArgs)
	// decode fills the panel with the groups of n blocks of a tile. It may centre
	// codes, and says so in the panel.
	decode(p *panel, f *format, blocks []byte, n int)
	// mulPanel multiplies a panel with a tile of tokens.
	mulPanel(a *kernelArgs)
	// copyResults copies the results of some tiles.
	copyResults(a *copyArgs)
	// mulSmall computes the sums of some tiles of rows for one token, or a few,
	// straight from the tiles, or reports false where there is no such kernel.
	mulSmall(t quant.Type, a *smallArgs) bool
	// scores multiplies a block of keys with a tile of queries.
	scores(a *scoreArgs, s *Scratch)
	// scores4 is scores for keys of 4 bits.
	scores4(a *scoreArgs, s *Scratch)
}

// widePath is a path that multiplies some formats in a way of its own, for which it
// brings the tokens to another form: for several tiles of rows at a time.
type widePath interface {
	// wide reports whether it does so.
	wide(f *format, tokens int) bool
	// mulWide computes the sums of n tiles of rows.
	mulWide(s *Scratch, t quant.Type, tiles []byte, n int, a *Activations)
}

// pairingPath is a path that wants the codes of neighbouring tokens in turns, eight
// elements of the one and eight of the other, in tiles of some tokens.
type pairingPath interface {
	pairsTokens(width int) bool
}

// codesApart returns how many bytes lie from eight codes of a token to the next
// eight, in a tile of so many tokens.
func codesApart(path kernels, width int) int {
	if path, ok := path.(pairingPath); ok && path.pairsTokens(width) {
		return 2 * pairElems
	}
	return pairElems
}

// kernelArgs is what a panel kernel multiplies: some groups of a tile of
// weights with a tile of tokens. Pointers are to the first group.
type kernelArgs struct {
	sums   *float32 // [width][TileRows], added to
	codes  *uint8   // [groups][planes][TileRows][laneBytes]
	scales *float32 // [groups][TileRows]
	mins   *float32 // [groups][TileRows], nil = none
	x      *int8    // [groups][width][GroupElems], see pairingPath
	dx     *float32 // [groups][width]
	shift  *float32 // [groups][width]
	start  *int32   // [groups][halves][width], nil with mins: startBits
	groups int
	width  int // 1, 2, 4, 8 or 16
	halves int // 1, or 2 for formats without a min
	zero   int // of the format; start has it already

	factors *float32 // [groups][halves][TileRows] of half sums, whole numbers; nil with one half

	// Codes of a centred panel are signed: less the format's zero already.
	centred bool
	// tiles of tokens follow one another; skip groups lie between the last group
	// of a tile and the first of the next. 1 where codes are not centred.
	tiles, skip int
	products    *int32      // memory for sums of groups [2][width][TileRows]
	config      *tileConfig // set by the path that has tiles
}

// tileConfig is what the tile registers of AMX are configured with: the number of rows
// and the bytes of a row for each.
type tileConfig struct {
	palette  uint8
	_        [15]uint8
	rowBytes [16]uint16
	rows     [16]uint8
}

// smallArgs is what a vector kernel multiplies: tiles of weights as they are
// stored with one token or the few of a narrow tile.
type smallArgs struct {
	sums   *float32 // [tiles][width][TileRows], overwritten
	tile   *byte    // the first; the others follow
	tiles  int
	x      *int8      // [groups][width][GroupElems]
	dx     *float32   // [groups][width]
	shift  *float32   // [groups][width]
	start  *int32     // [groups][halves][width], nil in formats with a min
	table  *[16]uint8 // the codes that nibbles stand for, in formats of 4 bits
	blocks int
	width  int    // 1, 2, 4 or 8
	size   int    // bytes of a tile
	panel  *panel // memory for scales that a path decodes

	// Set by paths that go through two runs of tiles at a time: where the second
	// run begins, how far its sums lie behind the first's, in bytes, and the tiles
	// of each.
	second *byte
	apart  int
	pairs  int
}

// each calls a kernel that knows one tile at a time for all of them.
func (a *smallArgs) each(kernel func(*smallArgs)) {
	for i := range a.tiles {
		if i > 0 {
			a.tile, a.sums = step(a.tile, a.size), step(a.sums, a.width*TileRows)
		}
		kernel(a)
	}
}

// inPairs calls a kernel that goes through two runs of tiles at a time: the first
// and the second half. Of an odd number the middle one is in both.
func (a *smallArgs) inPairs(kernel func(*smallArgs)) {
	a.pairs = (a.tiles + 1) / 2
	skip := a.tiles - a.pairs
	a.second, a.apart = step(a.tile, skip*a.size), skip*TileRows*4
	kernel(a)
}

// active is the path in use; tests switch it.
var active = choose(quant.Features())

// choose returns the path for what quant.Features names. Where quant has a path
// that needs less than ours of that name, it is the best one here.
func choose(name string) kernels {
	all := paths()
	for _, path := range all {
		if path.name() == name {
			return path
		}
	}
	return all[0]
}

// portable is the path of plain Go, which defines the others.
type portable struct{}

func (portable) name() string { return "portable" }

func (portable) decode(p *panel, f *format, blocks []byte, n int) {
	size := len(blocks) / n
	for i := range n {
		p.decode(f, blocks[i*size:][:size], i*f.groups(size))
	}
}

func (portable) mulSmall(quant.Type, *smallArgs) bool { return false }

func (portable) mulPanel(a *kernelArgs) {
	sums := unsafe.Slice(a.sums, a.width*TileRows)
	codes := unsafe.Slice(a.codes, a.groups*planes*planeBytes)
	scales := unsafe.Slice(a.scales, a.groups*TileRows)
	x := unsafe.Slice(a.x, a.groups*a.width*GroupElems)
	dx := unsafe.Slice(a.dx, a.groups*a.width)
	for g := range a.groups {
		for t := range a.width {
			token := x[(g*a.width+t)*GroupElems:][:GroupElems]
			d := dx[g*a.width+t]
			for row := range TileRows {
				acc := &sums[t*TileRows+row]
				var i int32
				for h := range a.halves {
					i += a.factor(g, h, row) * a.sum(codes[g*planes*planeBytes:], token, g, h, t, row)
				}
				product := float32(i) * scales[g*TileRows+row]
				if a.factors == nil {
					product += 0 // of zero it is +0, as the kernels' subtraction makes it
				}
				*acc = quant.FMA32(product, d, *acc)
				if a.mins != nil {
					mins, shift := unsafe.Slice(a.mins, a.groups*TileRows), unsafe.Slice(a.shift, a.groups*a.width)
					*acc = quant.FMA32(shift[g*a.width+t], mins[g*TileRows+row], *acc)
				}
			}
		}
	}
}

// sum returns the integer sum of a half group of a row and a token.
func (a *kernelArgs) sum(codes []uint8 /* of the group */, token []int8, g, h, t, row int) int32 {
	elems := GroupElems / a.halves
	i := a.startOf(g, h, t) - startBits
	for k := h * elems; k < (h+1)*elems; k++ {
		at := k/laneBytes*planeBytes + row*laneBytes + k%laneBytes
		i += int32(codes[at]) * int32(token[k])
	}
	return i
}

// factor returns what the sum of a half group is multiplied with.
func (a *kernelArgs) factor(g, h, row int) int32 {
	if a.factors == nil {
		return 1
	}
	return int32(unsafe.Slice(a.factors, a.groups*a.halves*TileRows)[(g*a.halves+h)*TileRows+row])
}

// startOf returns where the sum of a token's half group begins.
func (a *kernelArgs) startOf(g, h, t int) int32 {
	if a.start == nil {
		return startBits
	}
	return unsafe.Slice(a.start, a.groups*a.halves*a.width)[(g*a.halves+h)*a.width+t]
}

// asInt8, asInt32 and asUint16 view the memory of floats as integers.
func asInt8(f []float32) []int8 {
	return unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(f))), 4*len(f))
}

func asInt32(f []float32) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(f))), len(f))
}

func asUint16(f []float32) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(f))), 2*len(f))
}

// step returns the pointer to the element n after p.
func step[T any](p *T, n int) *T {
	return (*T)(unsafe.Add(unsafe.Pointer(p), n*int(unsafe.Sizeof(*p))))
}
