//go:build !noasm

package tiled

import (
	"unsafe"

	"github.com/llmrun/llmrun/quant"
)

// neonGEMV are the arguments of a GEMV kernel, which multiplies groups of a packed
// tile with one token. Pointers are to the first group. Kernels of whole tiles read the
// scales in the tile blocks and overwrite the sums of consecutive tiles; others
// multiply groups of one tile and add to its sums.
type neonGEMV struct {
	sums   *float32 // [TileRows]
	codes  *byte    // codes of the first group; the first tile block for kernels of whole tiles
	stride int      // bytes from one group to the next
	scales *float32 // [groups][TileRows]; scratch for kernels of whole tiles
	mins   *float32 // [groups][TileRows]; nil if the format has none; scratch for kernels of whole tiles; factors of halves of panels
	x      *int8    // [groups][width][GroupElems], width·GroupElems bytes apart
	dx     *float32 // [groups], width floats apart
	shift  *float32 // [groups], width floats apart
	start  *int32   // [groups][halves], startStep bytes apart
	groups int
	width  int       // tokens in the tile of activations
	table  [16]uint8 // signed decoded code of each nibble

	startStep int // 0 if all groups share one start

	// For kernels of whole tiles.
	blocks int // per row
	tiles  int
	apart  int // bytes from the sums of a tile to those of the next
}

// noStart is the initial sum of formats without a zero point.
var noStart int32 = startBits

// widenTable are VTBL indices that zero-extend the bytes of each quarter of a register
// to 32 bits. Indices beyond the register yield 0.
var widenTable = func() (all [4][16]uint8) {
	for i := range all {
		for j := range all[i] {
			all[i][j] = 0xFF
		}
		for lane := range 4 {
			all[i][4*lane] = uint8(4*i + lane)
		}
	}
	return all
}()

// Kernels of groups.

//go:noescape
func gemv4NEON(a *neonGEMV)

//go:noescape
func gemvTableNEON(a *neonGEMV)

//go:noescape
func gemv5NEON(a *neonGEMV)

// Kernels of whole tiles. gemvQ8MixedNEON needs FEAT_I8MM.

//go:noescape
func gemvQ4NEON(a *neonGEMV)

//go:noescape
func gemvQ8NEON(a *neonGEMV)

//go:noescape
func gemvQ8MixedNEON(a *neonGEMV)

//go:noescape
func gemvQ4KNEON(a *neonGEMV)

//go:noescape
func gemvQ5KNEON(a *neonGEMV)

//go:noescape
func gemvQ6KNEON(a *neonGEMV)

// Kernels of whole tiles for two tokens: sums and start are those of the first.

//go:noescape
func gemv2Q4NEON(a *neonGEMV)

//go:noescape
func gemv2Q8NEON(a *neonGEMV)

//go:noescape
func gemv2Q8MixedNEON(a *neonGEMV)

// Kernels of whole tiles for four tokens in pairs: sums, x and start are those of the first.

//go:noescape
func small4Q4NEON(a *neonGEMV)

//go:noescape
func small4Q8NEON(a *neonGEMV)

//go:noescape
func small4Q8MixedNEON(a *neonGEMV)

// Kernels of groups for four tokens in pairs: sums, x, dx, shift and start are those of the first.

//go:noescape
func small4MinNEON(a *neonGEMV)

//go:noescape
func small4TableNEON(a *neonGEMV)

// gemvTokens is the largest batch for which one GEMV per token is faster than a GEMM
// kernel for kernelTokens tokens.
const gemvTokens = 2

func (neonDot) mulSmall(t quant.Type, a *smallArgs) bool { return mulSmallNEON(t, a, false) }

func (neonMatrix) mulSmall(t quant.Type, a *smallArgs) bool { return mulSmallNEON(t, a, true) }

// mulSmallNEON multiplies tiles with a GEMV per token. mixed means that the processor
// has USDOT.
func mulSmallNEON(t quant.Type, a *smallArgs, mixed bool) bool {
	f := formats[t]
	switch {
	case a.width > gemvTokens && f.low != nil:
		return false // the kernels of panels multiply them
	case a.width > gemvTokens:
		return f.mulFoursNEON(t, a, mixed)
	case f.low != nil:
		f.mulLowTilesNEON(t, a)
		return true
	}
	switch t {
	case quant.Q4_0, quant.Q8_0, quant.Q4_K, quant.Q5_K, quant.Q6_K:
		f.mulTilesNEON(t, a, mixed)
	default:
		f.mulGroupTilesNEON(t, a)
	}
	return true
}

// mulGroupTilesNEON computes the sums of all tiles with a kernel of groups.
func (f *format) mulGroupTilesNEON(t quant.Type, a *smallArgs) {
	a.each(func(a *smallArgs) {
		clear(unsafe.Slice(a.sums, a.width*TileRows))
		f.mulTileNEON(t.BlockBytes()*TileRows, a)
	})
}

// mulTilesNEON computes the sums of all tiles with a kernel of whole tiles. Formats that
// have no kernel for two tokens call it for one after the other, while a tile is in the
// cache.
func (f *format) mulTilesNEON(t quant.Type, a *smallArgs, mixed bool) {
	v := neonGEMV{
		scales: &a.panel.scales[0], mins: &a.panel.mins[0], blocks: a.blocks,
		width: a.width, tiles: a.tiles, apart: a.width * TileRows * int(unsafe.Sizeof(*a.sums)),
	}
	if a.width == 2 && f.scales == oneScale {
		v.take(f, a, 0, 0)
		v.codes = a.tile
		v.mulTwo(t, mixed)
		return
	}
	if a.width > 1 {
		v.tiles = 1
	}
	for i := 0; i < a.tiles; i += v.tiles {
		for token := range a.width {
			v.take(f, a, 0, token)
			v.codes, v.sums = step(a.tile, i*a.size), step(v.sums, i*a.width*TileRows)
			v.mulTiles(t, mixed)
		}
	}
}

// mulFoursNEON multiplies tiles with four tokens, then with the next four, while a tile is in the
// cache. It reports whether the format has a kernel for that which executes fewer instructions than
// a panel; SMMLA makes up for unpacking codes of 4 bits for eight tokens.
func (f *format) mulFoursNEON(t quant.Type, a *smallArgs, mixed bool) bool {
	if t != quant.Q8_0 && (f.bits != 4 || mixed && a.width > kernelTokens) {
		return false
	}
	if t != quant.Q8_0 && t != quant.Q4_0 {
		f.mulGroupTilesNEON(t, a)
		return true
	}
	v := neonGEMV{blocks: a.blocks, width: a.width, tiles: 1}
	for i := range a.tiles {
		for token := 0; token < a.width; token += kernelTokens {
			v.take(f, a, 0, token)
			v.codes, v.sums = step(a.tile, i*a.size), step(v.sums, i*a.width*TileRows)
			v.mulFour(t, mixed)
		}
	}
	return true
}

// mulFour calls the kernel of whole tiles for four tokens.
func (v *neonGEMV) mulFour(t quant.Type, mixed bool) {
	switch {
	case t == quant.Q4_0:
		small4Q4NEON(v)
	case mixed:
		small4Q8MixedNEON(v)
	default:
		small4Q8NEON(v)
	}
}

// mulTiles calls the kernel of whole tiles of a type.
func (v *neonGEMV) mulTiles(t quant.Type, mixed bool) {
	switch {
	case t == quant.Q4_0:
		gemvQ4NEON(v)
	case t == quant.Q8_0 && mixed:
		gemvQ8MixedNEON(v)
	case t == quant.Q8_0:
		gemvQ8NEON(v)
	case t == quant.Q4_K:
		gemvQ4KNEON(v)
	case t == quant.Q5_K:
		gemvQ5KNEON(v)
	case t == quant.Q6_K:
		gemvQ6KNEON(v)
	}
}

// mulTwo calls the kernel of whole tiles for two tokens.
func (v *neonGEMV) mulTwo(t quant.Type, mixed bool) {
	switch {
	case t == quant.Q4_0:
		gemv2Q4NEON(v)
	case mixed:
		gemv2Q8MixedNEON(v)
	default:
		gemv2Q8NEON(v)
	}
}

// mulTileNEON computes the sums of one tile of other formats, with a GEMV per token or with
// kernelTokens tokens at a time.
// It decodes the scales to the panel, panelGroups or one block at a time. size is the
// size of a tile block in bytes.
func (f *format) mulTileNEON(size int, a *smallArgs) {
	p := a.panel
	v := neonGEMV{scales: &p.scales[0], stride: f.groupBytes(), start: &noStart, width: a.width}
	perBlock, run := f.groups(size), 1
	if perBlock == 1 {
		run, v.stride = panelGroups, size
	}
	if f.hasMin() {
		v.mins = &p.mins[0]
	}
	if a.table != nil { // that of a high plane is not the one of its type
		v.table = tableLess(a.table, f.zero)
	}
	tokens := 1
	if a.width > gemvTokens {
		tokens = kernelTokens
	}
	tile := unsafe.Slice(a.tile, a.blocks*size)
	for b := 0; b < a.blocks; b += run {
		n := min(run, a.blocks-b)
		blocks := tile[b*size : (b+n)*size]
		f.decodeScalesNEON(p.scales, p.mins, p.factors, blocks, n)
		v.codes, v.groups = &blocks[f.headBytes()], n*perBlock
		for token := 0; token < a.width; token += tokens {
			v.take(f, a, b*perBlock, token)
			f.mulGroupsNEON(&v, tokens)
		}
	}
}

// take points v to the sums of a token and to its activations from group g on.
func (v *neonGEMV) take(f *format, a *smallArgs, g, token int) {
	at := g*a.width + token
	v.sums, v.x = step(a.sums, token*TileRows), step(a.x, at*GroupElems)
	v.dx, v.shift = step(a.dx, at), step(a.shift, at)
	if a.start == nil {
		return
	}
	if f.halfGroups() {
		at += g * a.width
	}
	v.start, v.startStep = step(a.start, at), a.width*int(unsafe.Sizeof(*a.start))
}

// mulGroupsNEON calls the kernel of the format for one token or for kernelTokens tokens.
func (f *format) mulGroupsNEON(v *neonGEMV, tokens int) {
	even := f.table == &evenly
	switch {
	case tokens == 1 && f.bits == 4 && even:
		gemv4NEON(v)
	case tokens == 1 && f.bits == 4:
		gemvTableNEON(v)
	case tokens == 1 && f.bits == 5:
		gemv5NEON(v)
	case f.bits == 4 && even:
		small4MinNEON(v)
	case f.bits == 4:
		small4TableNEON(v)
	}
}
