//go:build !noasm

package tiled

import (
	"unsafe"

	"golang.org/x/sys/cpu"

	"github.com/llmrun/llmrun/quant"
)

// AMX multiplies Q6_K in bfloat16. wideCodesAVX512 multiplies every code of a panel,
// less its zero point, with its factor. The product has 13 bits, too many for an
// int8 operand, so it becomes the sum of two bfloat16 numbers of the same sign.
// TDPBF16PS accumulates their products with the activations in float32. All products
// are integers, and every partial sum is at most 32·127·2¹² < 2²⁴ in magnitude. The
// sums are therefore exact in any order.

// wideConfigs maps the width of a tile of tokens to the configuration of its kernels.
var wideConfigs = func() (all [TileTokens + 1]tileConfig) {
	for width := 1; width <= TileTokens; width *= 2 {
		c := &all[width]
		c.palette = 1
		c.rows[tileOfTokens], c.rowBytes[tileOfTokens] = uint8(width), 2*GroupElems
		c.rows[tileOfSums], c.rowBytes[tileOfSums] = uint8(width), 4*TileRows
		for _, codes := range []int{tileOfCodes, tileOfSecondCodes} {
			c.rows[codes], c.rowBytes[codes] = GroupElems/2, 4*TileRows
		}
	}
	return all
}()

// widenAVX512 converts n groups of int8 activations to bfloat16.
//
//go:noescape
func widenAVX512(dst *uint16, src *int8, n int)

// wideCodesAVX512 replaces a panel's codes by (code-halfZero)·factor as pairs of
// bfloat16 numbers: [groups][2][GroupElems/2][TileRows][2].
//
//go:noescape
func wideCodesAVX512(codes *uint8, factors *float32, groups int)

//go:noescape
func mulWideAMX(a *kernelArgs)

//go:noescape
func narrowWideAMX(a *kernelArgs)

func (amx) wide(f *format, tokens int) bool {
	return f.halfGroups() && f.low == nil && tokens >= minTileTokens && cpu.X86.HasAMXBF16
}

// mulWide widens wideGroups groups of all tokens, multiplies them with all n tiles
// of rows, and continues with the next groups.
func (amx) mulWide(s *Scratch, t quant.Type, tiles []byte, n int, a *Activations) {
	f, blockBytes, blockGroups := formats[t], t.BlockBytes()*TileRows, t.BlockElems()/GroupElems
	s.panel.tokens, s.panel.centred = a.tokens, true
	for i := range n {
		s.use(i, a.tokens)
	}
	blocks, tileSums := a.cols/t.BlockElems(), paddedTokens(a.tokens)*TileRows
	for b := 0; b < blocks; b += wideGroups / blockGroups {
		nb := min(wideGroups/blockGroups, blocks-b)
		g, groups := b*blockGroups, nb*blockGroups
		s.widen(a, g, groups)
		for i := range n {
			at := (i*blocks + b) * blockBytes
			avx512Decoders.decode(&s.panel, f, tiles[at:at+nb*blockBytes], nb)
			wideCodesAVX512(&s.panel.codes[0], &s.panel.factors[0], groups)
			s.multiplyWide(a, g, groups, s.results[i*tileSums:(i+1)*tileSums])
		}
	}
}

// widen converts groups g to g+n-1 of all tokens to bfloat16 in s.wide:
// [tile][n][token][GroupElems].
func (s *Scratch) widen(a *Activations, g, n int) {
	if size := wideElems(a.tokens); len(s.wide) < size {
		s.wide = make([]uint16, size)
	}
	for i := 0; i*TileTokens < a.tokens; i++ {
		width, base := a.tile(i)
		widenAVX512(&s.wide[i*TileTokens*n*GroupElems], &a.codes[(base+g*width)*GroupElems], n*width)
	}
}

// multiplyWide adds the products of the panel's n groups, groups g to g+n-1 of the
// row, to the sums of all tokens.
func (s *Scratch) multiplyWide(a *Activations, g, n int, sums []float32 /* [tokens][TileRows] */) {
	args := &s.args
	for i := 0; i*TileTokens < a.tokens; i += args.tiles {
		width, base := a.tile(i)
		at := base + g*width
		*args = kernelArgs{
			sums: &sums[i*TileTokens*TileRows], codes: &s.panel.codes[0], scales: &s.panel.scales[0],
			x: (*int8)(unsafe.Pointer(&s.wide[i*TileTokens*n*GroupElems])), dx: &a.scale[at], shift: &a.shift[at],
			groups: n, width: width, tiles: 1, skip: a.cols/GroupElems - n,
			products: &s.products[0], config: &wideConfigs[width],
		}
		if width < TileTokens {
			narrowWideAMX(args)
			continue
		}
		args.tiles = paddedTokens(a.tokens)/TileTokens - i
		mulWideAMX(args)
	}
}
