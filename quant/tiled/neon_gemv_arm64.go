//go:build !noasm

package tiled

import (
	"unsafe"

	"github.com/llmrun/llmrun/quant"
)

// neonGEMV are the arguments of a GEMV kernel, which multiplies groups of a packed
// tile with one token. Pointers are to the first group. gemvQ4NEON and gemvQ8NEON
// read scales from the tile blocks instead of scales.
type neonGEMV struct {
	sums   *float32 // [TileRows]; the kernel accumulates into it
	codes  *byte    // codes of the first group, or the first tile block for gemvQ4NEON and gemvQ8NEON
	stride int      // bytes from one group to the next
	scales *float32 // [groups][TileRows]
	mins   *float32 // [groups][TileRows]; nil if the format has none
	x      *int8    // [groups][GroupElems], width·GroupElems bytes apart
	dx     *float32 // [groups], width floats apart
	shift  *float32 // [groups], width floats apart
	start  *int32   // [groups][halves], startStep bytes apart
	groups int
	width  int       // tokens in the tile of activations
	table  [16]uint8 // signed decoded code of each nibble

	factors *float32 // [groups][halves][TileRows], for formats with half groups

	startStep int // 0 if all groups share one start
}

// noStart is the initial sum of formats without a zero point.
var noStart int32 = startBits

//go:noescape
func gemv4NEON(a *neonGEMV)

//go:noescape
func gemvTableNEON(a *neonGEMV)

//go:noescape
func gemv5NEON(a *neonGEMV)

//go:noescape
func gemv6NEON(a *neonGEMV)

//go:noescape
func gemvQ4NEON(a *neonGEMV)

//go:noescape
func gemvQ8NEON(a *neonGEMV)

// gemvTokens is the largest batch for which one GEMV per token is faster than a GEMM
// kernel for kernelTokens tokens.
const gemvTokens = 2

func (neonDot) mulSmall(t quant.Type, a *smallArgs) bool {
	if a.width > gemvTokens {
		return false
	}
	f := formats[t]
	a.each(func(a *smallArgs) {
		clear(unsafe.Slice(a.sums, a.width*TileRows))
		if t == quant.Q4_0 || t == quant.Q8_0 {
			f.mulBlocksNEON(a)
		} else {
			f.mulTileNEON(t.BlockBytes()*TileRows, a)
		}
	})
	return true
}

// mulBlocksNEON computes the sums of one Q4_0 or Q8_0 tile, with a GEMV per token.
func (f *format) mulBlocksNEON(a *smallArgs) {
	v := neonGEMV{codes: a.tile, groups: a.blocks, width: a.width}
	for token := range a.width {
		v.take(f, a, 0, token)
		if f.bits == 4 {
			gemvQ4NEON(&v)
		} else {
			gemvQ8NEON(&v)
		}
	}
}

// mulTileNEON computes the sums of one tile of other formats, with a GEMV per token.
// It decodes the scales to the panel, panelGroups or one block at a time. size is the
// size of a tile block in bytes.
func (f *format) mulTileNEON(size int, a *smallArgs) {
	p := a.panel
	v := neonGEMV{scales: &p.scales[0], factors: &p.factors[0], stride: f.groupBytes(), start: &noStart, width: a.width}
	perBlock, run := f.groups(size), 1
	if perBlock == 1 {
		run, v.stride = panelGroups, size
	}
	if f.hasMin() {
		v.mins = &p.mins[0]
	}
	if f.table != nil {
		v.table = f.tableLess(f.zero)
	}
	tile := unsafe.Slice(a.tile, a.blocks*size)
	for b := 0; b < a.blocks; b += run {
		n := min(run, a.blocks-b)
		blocks := tile[b*size : (b+n)*size]
		f.decodeScalesNEON(p.scales, p.mins, p.factors, blocks, n)
		v.codes, v.groups = &blocks[f.headBytes()], n*perBlock
		for token := range a.width {
			v.take(f, a, b*perBlock, token)
			f.mulGroupsNEON(&v)
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

// mulGroupsNEON calls the GEMV kernel of the format.
func (f *format) mulGroupsNEON(v *neonGEMV) {
	switch {
	case f.bits == 4 && f.table == &evenly:
		gemv4NEON(v)
	case f.bits == 4:
		gemvTableNEON(v)
	case f.bits == 5:
		gemv5NEON(v)
	case f.bits == 6:
		gemv6NEON(v)
	}
}
