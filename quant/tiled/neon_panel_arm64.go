//go:build !noasm

package tiled

import "unsafe"

// partGroups is the number of groups that mulPaddedTokens and mulKeys copy and
// multiply at a time. The copies take 4 KiB of stack.
const partGroups = 8

// kernelTokens and kernelRows are the shape that mulDotNEON and mulMatrixNEON
// compute in registers.
const kernelTokens, kernelRows = 4, 8

// The GEMM kernels read signed codes; mulMatrixNEON reads them in the order that
// pairCodesNEON writes. They compute a tile that starts at row and token.

//go:noescape
func mulBaseNEON(a *kernelArgs, row, token int)

//go:noescape
func mulDotNEON(a *kernelArgs, row, token int)

//go:noescape
func mulMatrixNEON(a *kernelArgs, row, token int)

//go:noescape
func signCodesNEON(dst, src *uint8, groups int)

//go:noescape
func pairCodesNEON(codes *uint8, groups int)

func (neon) mulPanel(a *kernelArgs) {
	if !a.centred {
		mulKeys(a)
		return
	}
	a.eachTile(mulBaseTokens)
}

func (neonDot) mulPanel(a *kernelArgs) { a.eachTile(mulDotTokens) }

func (neonMatrix) mulPanel(a *kernelArgs) { a.eachTile(mulMatrixTokens) }

// eachTile calls multiply once per tile of tokens.
func (a *kernelArgs) eachTile(multiply func(*kernelArgs)) {
	apart := (a.groups + a.skip) * a.width
	for i := range a.tiles {
		if i > 0 {
			a.sums, a.x = step(a.sums, a.width*TileRows), step(a.x, apart*GroupElems)
			a.dx, a.shift = step(a.dx, apart), step(a.shift, apart)
		}
		multiply(a)
	}
}

func mulBaseTokens(a *kernelArgs) {
	for token := range a.width {
		mulBaseNEON(a, 0, token)
	}
}

// mulKeys multiplies the codes of keys after subtracting their zero point, 128.
func mulKeys(a *kernelArgs) {
	var codes [partGroups * planes * planeBytes]uint8
	for g := 0; g < a.groups; g += partGroups {
		part := a.part(g, min(partGroups, a.groups-g))
		signCodesNEON(&codes[0], part.codes, part.groups)
		part.codes = &codes[0]
		mulBaseTokens(&part)
	}
}

func mulDotTokens(a *kernelArgs)    { mulTokens(a, false) }
func mulMatrixTokens(a *kernelArgs) { mulTokens(a, true) }

// mulTokens multiplies one tile of tokens with mulMatrixNEON if matrix is true,
// otherwise with mulDotNEON.
func mulTokens(a *kernelArgs, matrix bool) {
	if a.width < kernelTokens {
		mulPaddedTokens(a, matrix)
	} else {
		mulFullTokens(a, matrix)
	}
}

// mulFullTokens multiplies a tile of at least kernelTokens tokens.
func mulFullTokens(a *kernelArgs, matrix bool) {
	for row := 0; row < TileRows; row += kernelRows {
		for token := 0; token < a.width; token += kernelTokens {
			if matrix {
				mulMatrixNEON(a, row, token)
			} else {
				mulDotNEON(a, row, token)
			}
		}
	}
}

// pairsTokens is true for the widths that mulFullTokens multiplies.
func (neonDot) pairsTokens(width int) bool { return width >= kernelTokens }

// mulPaddedTokens multiplies a tile of fewer than kernelTokens tokens. It pads the
// tile with zeros to kernelTokens. The wasted work is small: such a tile is the last
// of a large batch, or a whole batch for which memory bandwidth is the limit.
func mulPaddedTokens(a *kernelArgs, matrix bool) {
	var (
		sums      [kernelTokens * TileRows]float32
		x         [partGroups][kernelTokens * GroupElems]int8
		dx, shift [partGroups][kernelTokens]float32
	)
	result := unsafe.Slice(a.sums, a.width*TileRows)
	copy(sums[:], result)
	for g := 0; g < a.groups; g += partGroups {
		part := a.part(g, min(partGroups, a.groups-g))
		for i := range part.groups {
			for t := range a.width {
				codes := unsafe.Slice(step(part.x, (i*a.width+t)*GroupElems), GroupElems)
				for j := range GroupElems / pairElems {
					*(*[pairElems]int8)(x[i][(2*j+t)*pairElems:]) = [pairElems]int8(codes[j*pairElems:])
				}
			}
			copy(dx[i][:], unsafe.Slice(step(part.dx, i*a.width), a.width))
			copy(shift[i][:], unsafe.Slice(step(part.shift, i*a.width), a.width))
		}
		part.sums, part.x, part.dx, part.shift = &sums[0], &x[0][0], &dx[0][0], &shift[0][0]
		part.width = kernelTokens
		mulFullTokens(&part, matrix)
	}
	copy(result, sums[:])
}

// part returns the arguments for groups g to g+n-1. It leaves out start, which the
// NEON kernels do not read.
func (a *kernelArgs) part(g, n int) kernelArgs {
	part := *a
	part.codes = step(a.codes, g*planes*planeBytes)
	part.scales = step(a.scales, g*TileRows)
	if a.factors != nil {
		part.factors = step(a.factors, g*a.halves*TileRows)
	}
	if a.mins != nil {
		part.mins = step(a.mins, g*TileRows)
	}
	part.x = step(a.x, g*a.width*GroupElems)
	part.dx, part.shift = step(a.dx, g*a.width), step(a.shift, g*a.width)
	part.start, part.groups = nil, n
	return part
}
