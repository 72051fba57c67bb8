//go:build !noasm

package tiled

import "unsafe"

// signedGroups is how many groups of a panel are made signed at a time. The
// copy takes 4 KiB of the stack.
const signedGroups = 8

// kernelTokens and kernelRows are what mulDotNEON and mulMatrixNEON compute.
const kernelTokens, kernelRows = 4, 8

// The panel kernels read codes as signCodesNEON leaves them, or pairCodesNEON
// for mulMatrixNEON. row and token are the first of those that they compute.

//go:noescape
func mulBaseNEON(a *kernelArgs, row, token int)

//go:noescape
func mulDotNEON(a *kernelArgs, row, token int)

//go:noescape
func mulMatrixNEON(a *kernelArgs, row, token int)

//go:noescape
func signCodesNEON(dst, src *uint8, groups int)

//go:noescape
func pairCodesNEON(dst, src *uint8, groups int)

func (neon) mulPanel(a *kernelArgs) {
	var codes [signedGroups * planes * planeBytes]uint8
	for g := 0; g < a.groups; g += signedGroups {
		part := a.part(g, min(signedGroups, a.groups-g))
		signCodesNEON(&codes[0], part.codes, part.groups)
		part.codes = &codes[0]
		for token := range part.width {
			mulBaseNEON(&part, 0, token)
		}
	}
}

func (neonDot) mulPanel(a *kernelArgs) { mulTokens(a, false) }

func (neonMatrix) mulPanel(a *kernelArgs) { mulTokens(a, true) }

// mulTokens multiplies with mulMatrixNEON or mulDotNEON.
func mulTokens(a *kernelArgs, matrix bool) {
	if a.width < kernelTokens {
		mulFewTokens(a, matrix)
	} else {
		mulManyTokens(a, matrix)
	}
}

// mulManyTokens multiplies tiles of kernelTokens tokens and more.
func mulManyTokens(a *kernelArgs, matrix bool) {
	var codes [signedGroups * planes * planeBytes]uint8
	for g := 0; g < a.groups; g += signedGroups {
		part := a.part(g, min(signedGroups, a.groups-g))
		if matrix {
			pairCodesNEON(&codes[0], part.codes, part.groups)
		} else {
			signCodesNEON(&codes[0], part.codes, part.groups)
		}
		part.codes = &codes[0]
		for row := 0; row < TileRows; row += kernelRows {
			for token := 0; token < part.width; token += kernelTokens {
				if matrix {
					mulMatrixNEON(&part, row, token)
				} else {
					mulDotNEON(&part, row, token)
				}
			}
		}
	}
}

// mulFewTokens multiplies a tile of fewer than kernelTokens tokens as one of so
// many: the others are zero. Such a tile is the last of a batch or the whole of
// a very small one, and then reading the weights is most of the work.
func mulFewTokens(a *kernelArgs, matrix bool) {
	var (
		sums      [kernelTokens * TileRows]float32
		x         [signedGroups][kernelTokens * GroupElems]int8
		dx, shift [signedGroups][kernelTokens]float32
	)
	result := unsafe.Slice(a.sums, a.width*TileRows)
	copy(sums[:], result)
	for g := 0; g < a.groups; g += signedGroups {
		part := a.part(g, min(signedGroups, a.groups-g))
		for i := range part.groups {
			copy(x[i][:], unsafe.Slice(step(part.x, i*a.width*GroupElems), a.width*GroupElems))
			copy(dx[i][:], unsafe.Slice(step(part.dx, i*a.width), a.width))
			copy(shift[i][:], unsafe.Slice(step(part.shift, i*a.width), a.width))
		}
		part.sums, part.x, part.dx, part.shift = &sums[0], &x[0][0], &dx[0][0], &shift[0][0]
		part.width = kernelTokens
		mulManyTokens(&part, matrix)
	}
	copy(result, sums[:])
}

// part returns the arguments for n groups from g on. There is no start, which
// the kernels do not read.
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
