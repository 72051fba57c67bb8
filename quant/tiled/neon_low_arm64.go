//go:build !noasm

package tiled

import (
	"unsafe"

	"github.com/llmrun/llmrun/quant"
)

//go:noescape
func lowIQ1SNEON(a *lowArgs)

//go:noescape
func lowIQ1MNEON(a *lowArgs)

//go:noescape
func lowIQ2XXSNEON(a *lowArgs)

//go:noescape
func lowIQ2XSNEON(a *lowArgs)

//go:noescape
func lowIQ2SNEON(a *lowArgs)

//go:noescape
func lowIQ3XXSNEON(a *lowArgs)

//go:noescape
func lowIQ3SNEON(a *lowArgs)

//go:noescape
func lowNVFP4NEON(a *lowArgs)

//go:noescape
func lowTQ1NEON(a *lowArgs)

//go:noescape
func lowTQ2NEON(a *lowArgs)

//go:noescape
func lowQ1NEON(a *lowArgs)

//go:noescape
func lowQ2NEON(a *lowArgs)

// neonLow are the decoders of low-bit formats, to signed codes; their code books are points.
var neonLow = map[quant.Type]lowKernel{
	quant.IQ1_S:   {decode: lowIQ1SNEON, book: (*byte)(unsafe.Pointer(&points.iq1))},
	quant.IQ1_M:   {decode: lowIQ1MNEON, book: (*byte)(unsafe.Pointer(&points.iq1))},
	quant.IQ2_XXS: {decode: lowIQ2XXSNEON, book: (*byte)(unsafe.Pointer(&points.iq2xxs))},
	quant.IQ2_XS:  {decode: lowIQ2XSNEON, book: (*byte)(unsafe.Pointer(&points.iq2xs))},
	quant.IQ2_S:   {decode: lowIQ2SNEON, book: (*byte)(unsafe.Pointer(&points.iq2s))},
	quant.IQ3_XXS: {decode: lowIQ3XXSNEON, book: (*byte)(unsafe.Pointer(&points.iq3xxs))},
	quant.IQ3_S:   {decode: lowIQ3SNEON, book: (*byte)(unsafe.Pointer(&points.iq3s))},
	quant.NVFP4:   {decode: lowNVFP4NEON},
	quant.TQ1_0:   {decode: lowTQ1NEON},
	quant.TQ2_0:   {decode: lowTQ2NEON},
	quant.Q1_0:    {decode: lowQ1NEON},
	quant.Q2_0:    {decode: lowQ2NEON},
}

//go:noescape
func gemvPanelNEON(a *neonGEMV)

//go:noescape
func gemvPanelHalvesNEON(a *neonGEMV)

// mulLowTilesNEON multiplies tiles of a low-bit format with one or two tokens: it decodes a part of a
// tile to the panel once, and multiplies that with one token after the other.
func (f *format) mulLowTilesNEON(t quant.Type, a *smallArgs) {
	a.each(func(a *smallArgs) {
		clear(unsafe.Slice(a.sums, a.width*TileRows))
		f.mulLowTileNEON(neonLow[t], t.BlockBytes()*TileRows, a)
	})
}

func (f *format) mulLowTileNEON(kernel lowKernel, size int, a *smallArgs) {
	p, groups := a.panel, f.low.groups
	v := neonGEMV{scales: &p.scales[0], stride: planes * planeBytes, start: &noStart, width: a.width}
	if f.low.halves {
		v.mins = &p.factors[0]
	}
	tile := unsafe.Slice(a.tile, a.blocks*size)
	for b := 0; b < a.blocks; b += panelGroups / groups {
		n := min(panelGroups/groups, a.blocks-b)
		p.decodeLowBlocks(f, tile[b*size:(b+n)*size], n, kernel, 0)
		v.groups = n * groups
		for token := range a.width {
			v.take(f, a, b*groups, token)
			v.codes = &p.codes[0]
			if f.low.halves {
				gemvPanelHalvesNEON(&v)
			} else {
				gemvPanelNEON(&v)
			}
		}
	}
}
