//go:build !noasm

package tiled

// The kernels of shapes multiply tiles of rows and of tokens at once: codes are [groups][tiles of rows][planes][TileRows][laneBytes],
// scales [groups][rows], x [groups][tokens][GroupElems], dx [groups][tokens], sums [tiles of rows][tiles of tokens][TileTokens][TileRows]
// and products twice that. groups is even.

//go:noescape
func shape16x16AMX(a *kernelArgs)

//go:noescape
func shape32x16AMX(a *kernelArgs)

//go:noescape
func shape16x32AMX(a *kernelArgs)

//go:noescape
func shape32x32AMX(a *kernelArgs)

// amxShape is a shape of the tiles of AMX.
type amxShape struct {
	rows, tokens int
	inRegisters  bool // float sums
	run          func(a *kernelArgs)
}

// amxShapes are what runs and its neighbours.
var amxShapes = []amxShape{
	{TileRows, TileTokens, true, mulPlainAMX},
	{TileRows, TileTokens, false, shape16x16AMX},
	{2 * TileRows, TileTokens, false, shape32x16AMX},
	{TileRows, 2 * TileTokens, false, shape16x32AMX},
	{2 * TileRows, 2 * TileTokens, false, shape32x32AMX},
}
