//go:build !noasm

package tiled

// amx is the avx512 path with the tile registers of AMX for products with many
// tokens. They multiply signed bytes, so that a panel's codes are less the
// format's zero.
type amx struct{ avx512 }

// The tiles that kernels use, in their configuration.
const (
	tileOfSums = iota
	tileOfTokens
	tileOfCodes
	tileOfSecondCodes // of wide codes
)

// tileConfigs has the configurations for tiles of width tokens, at width.
var tileConfigs = func() (all [TileTokens + 1]tileConfig) {
	for width := 1; width <= TileTokens; width *= 2 {
		c := &all[width]
		c.palette = 1
		c.rows[tileOfTokens], c.rowBytes[tileOfTokens] = uint8(width), GroupElems
		c.rows[tileOfSums], c.rowBytes[tileOfSums] = uint8(width), 4*TileRows
		c.rows[tileOfCodes], c.rowBytes[tileOfCodes] = planes, planeBytes
	}
	return all
}()

// minTileTokens is how many tokens there have to be for tiles to be faster: the
// tokens that do not fill a tile take longer than without.
const minTileTokens = 2 * TileTokens

// centreAVX512 subtracts zero from the codes of a panel.
//
//go:noescape
func centreAVX512(codes *uint8, groups int, zero uint8)

// decode leaves codes as they are where tiles would not be faster: with few
// tokens. Formats with half groups have panels of their own, see mulWide.
func (p amx) decode(to *panel, f *format, blocks []byte, n int) {
	to.centred = to.tokens >= minTileTokens && !f.halfGroups()
	if !to.centred || f.zero == 0 {
		p.avx512.decode(to, f, blocks, n)
		return
	}
	if f.bits != 4 {
		p.avx512.decode(to, f, blocks, n)
		centreAVX512(&to.codes[0], n*f.groups(len(blocks)/n), uint8(f.zero))
		return
	}
	for i, code := range f.table {
		to.table[i] = code - uint8(f.zero)
	}
	centred := *f
	centred.table = &to.table
	p.avx512.decode(to, &centred, blocks, n)
}

//go:noescape
func mulPlainAMX(a *kernelArgs)

//go:noescape
func mulMinsAMX(a *kernelArgs)

//go:noescape
func narrowPlainAMX(a *kernelArgs)

//go:noescape
func narrowMinsAMX(a *kernelArgs)

func (p amx) mulPanel(a *kernelArgs) {
	if !a.centred {
		p.avx512.mulPanel(a)
		return
	}
	a.config = &tileConfigs[a.width]
	full := a.width == TileTokens
	switch {
	case full && a.mins != nil:
		mulMinsAMX(a)
	case full:
		mulPlainAMX(a)
	case a.mins != nil:
		narrowMinsAMX(a)
	default:
		narrowPlainAMX(a)
	}
}
