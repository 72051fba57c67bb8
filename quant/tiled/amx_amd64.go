//go:build !noasm

package tiled

// amx is the avx512 path with GEMM kernels that use the tile registers of AMX.
// TDPBSSD multiplies signed bytes, so decode subtracts the zero point from the codes.
type amx struct{ avx512 }

// Numbers of the tile registers that the kernels use.
const (
	tileOfSums = iota
	tileOfTokens
	tileOfCodes
	tileOfSecondCodes // low parts of bfloat16 codes
)

// tileConfigs maps the width of a tile of tokens to the configuration of its kernels.
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

// minTileTokens is the smallest batch for which AMX is faster than AVX-512. Partial
// tiles of tokens are slower with AMX.
const minTileTokens = 2 * TileTokens

// centreAVX512 subtracts zero from the codes of a panel, [groups][planes][planeBytes].
//
//go:noescape
func centreAVX512(codes *uint8, groups int, zero uint8)

// decode subtracts the zero point from the codes for batches of minTileTokens and
// more. For formats with half groups it does not, because mulWide multiplies them.
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
		to.centredTable[i] = code - uint8(f.zero)
	}
	centred := *f
	centred.table = &to.centredTable
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
