package quant

import "encoding/hex"

// The IQ formats of 1 to 3 bits store groups of elements as an index into a list of points, a code
// book. The coordinates of a point are magnitudes of few levels (IQ1: numbers with signs), which
// signs and scales complete.

// Levels of the coordinates by format.
var (
	levelsIQ1    = [4]int8{-1, 0, 1}
	levelsIQ2    = [4]int8{8, 25, 43}
	levelsIQ3XXS = [8]int8{4, 12, 20, 28, 36, 44, 52, 62}
	levelsIQ3S   = [8]int8{1, 3, 5, 7, 9, 11, 13, 15}
)

// Grid is a code book: its points have 8 coordinates in IQ1 and IQ2, and 4 in IQ3.
type Grid struct {
	// Fields has the levels' indices of each point: eight fields of 2 bits, or four of 4 bits,
	// from the lowest bit on.
	Fields []uint16
	// Levels are what the fields stand for.
	Levels []int8
	// Coordinates of a point: 8 or 4.
	Coordinates int
}

var grids = [numTypes]*Grid{
	IQ1_S:   newGrid(gridIQ1, levelsIQ1[:], 8),
	IQ2_XXS: newGrid(gridIQ2XXS, levelsIQ2[:], 8),
	IQ2_XS:  newGrid(gridIQ2XS, levelsIQ2[:], 8),
	IQ2_S:   newGrid(gridIQ2S, levelsIQ2[:], 8),
	IQ3_XXS: newGrid(gridIQ3XXS, levelsIQ3XXS[:], 4),
	IQ3_S:   newGrid(gridIQ3S, levelsIQ3S[:], 4),
}

// GridOf returns the code book of a format, nil if it has none. It must not be written to.
func GridOf(t Type) *Grid {
	if t == IQ1_M {
		t = IQ1_S
	}
	return grids[t]
}

func newGrid(digits string, levels []int8, coordinates int) *Grid {
	raw, err := hex.DecodeString(digits)
	if err != nil {
		panic(err) // a constant of this package
	}
	g := &Grid{Fields: make([]uint16, len(raw)/2), Levels: levels, Coordinates: coordinates}
	for i := range g.Fields {
		g.Fields[i] = uint16(raw[2*i]) | uint16(raw[2*i+1])<<8
	}
	return g
}

// Point returns the coordinates of a point, of which IQ3 has four.
func (g *Grid) Point(index int) (point [8]int8) {
	bits := 16 / g.Coordinates
	for i := range g.Coordinates {
		field := int(g.Fields[index]) >> (bits * i) & (1<<bits - 1)
		point[i] = g.Levels[field%len(g.Levels)]
	}
	return point
}

// SignByte returns the signs of eight elements, a bit each, of which files store seven: the number
// of negative elements is even.
func SignByte(seven uint8) uint8 {
	parity := seven ^ seven>>4
	parity ^= parity >> 2
	parity ^= parity >> 1
	return seven&0x7f | parity<<7
}
