package tiled

import "fmt"

// TileModel is what the best tile of a kernel depends on: how many registers
// there are and how an instruction uses them.
type TileModel struct {
	Registers int // vector registers
	Lanes     int // 32-bit sums in a register
	Depth     int // elements of a row that a lane takes in an instruction: lp
	RowStep   int // rows that a register of sums or codes has
	TokenStep int // tokens come in multiples of this
	// Indexed says that registers hold several tokens' elements, of which
	// instructions pick some; otherwise one token is broadcast at a time.
	Indexed bool
	// Scratch counts registers for what is between an instruction's results
	// and the sums.
	Scratch int
	// Group is how many elements share a scale, 0 where a whole row does. With
	// groups, all codes of a group stay in registers while its tokens pass,
	// besides integer sums of the tokens in flight and the scales.
	Group    int
	InFlight int // tokens computed at a time, which hides latency
	Scales   int // registers of scales, mins and what follows from them, for each register of rows
}

// Tile is a shape that a kernel computes at once: EP tokens times HP rows, LP
// elements of them at a time.
type Tile struct{ EP, HP, LP int }

func (t Tile) String() string { return fmt.Sprintf("%d,%d,%d", t.EP, t.HP, t.LP) }

// Models of the instruction sets that there are kernels for and of those in the
// table of the paper that the method is from (mobile inference with tiles
// chosen by registers, see [Solve]).
var (
	// ModelAVX512 is VPDPBUSD with a broadcast from memory, for groups of 32.
	// It yields the tile of this package: 16 sums, 8 registers of codes, 4 of
	// sums in flight and 3 of scales are 31.
	ModelAVX512 = TileModel{
		Registers: 32, Lanes: 16, Depth: 4, RowStep: 16, TokenStep: 4,
		Group: GroupElems, InFlight: 4, Scales: 3,
	}
	// ModelSDOT and ModelI8MM are ARM's dot products, with elements of four
	// tokens in a register, and products of 2×8 by 8×2, for whole rows.
	ModelSDOT = TileModel{Registers: 32, Lanes: 4, Depth: 4, RowStep: 4, TokenStep: 4, Indexed: true}
	ModelI8MM = TileModel{Registers: 32, Lanes: 4, Depth: 8, RowStep: 2, TokenStep: 2, Indexed: true}
	// ModelAVX2Row and ModelAVX512Row are the same for AVX2, whose products
	// take a register before and one after they are widened and one of ones,
	// and for AVX-512 without groups.
	ModelAVX2Row   = TileModel{Registers: 16, Lanes: 8, Depth: 4, RowStep: 8, TokenStep: 4, Scratch: 3}
	ModelAVX512Row = TileModel{Registers: 32, Lanes: 16, Depth: 4, RowStep: 16, TokenStep: 4}
)

// RegistersFor returns how many registers a tile takes.
func (m TileModel) RegistersFor(t Tile) int {
	registerBytes := 4 * m.Lanes
	sums := ceil(t.EP*t.HP, m.Lanes)
	codes := ceil(t.HP*t.LP, registerBytes)
	if m.Group > 0 {
		rows := ceil(t.HP, m.RowStep)
		codes *= m.Group / t.LP
		return sums + codes + rows*(m.InFlight+m.Scales) + m.Scratch
	}
	tokens := 1
	if m.Indexed {
		tokens = ceil(t.EP*t.LP, registerBytes)
	}
	return sums + codes + tokens + m.Scratch
}

// Cost returns how many elements a product of e tokens, h rows and l elements
// of each loads and stores: every tile reads its tokens and its rows once, and
// its results.
func (t Tile) Cost(e, h, l int) float64 {
	tiles := float64(e) / float64(t.EP) * float64(h) / float64(t.HP)
	return tiles * float64(l*t.EP+l*t.HP+t.HP*t.EP)
}

// Solve returns the tile of the least cost for large products among those whose
// registers the machine has; of equals, the one with more tokens.
//
// For whole rows it finds the published 12,8,4 of SDOT and 10,8,8 of I8MM. The
// condition published with them, ep + hp + hp·ep ≤ registers, is not met by
// either (12 + 8 + 96 > 32); it is when sums are counted in lanes, as here. The
// published tiles for AVX2 (4,8,4) and AVX-512 (4,64,4) do not follow: 8 tokens
// fit with AVX2, and with AVX-512 28 tokens of 16 rows load 0.10 elements for a
// product where 4 tokens of 64 rows load 0.27.
//
// Groups change the answer for AVX-512, because their codes and sums in flight
// take registers too: two registers of rows would leave 2 for sums.
func Solve(m TileModel) Tile {
	const e, h, l = 1 << 10, 1 << 12, 1 << 12
	var best Tile
	for hp := m.RowStep; hp <= m.Registers*m.Lanes; hp += m.RowStep {
		for ep := m.TokenStep; ep <= m.Registers*m.Lanes; ep += m.TokenStep {
			t := Tile{ep, hp, m.Depth}
			if m.RegistersFor(t) > m.Registers {
				break
			}
			if best.EP == 0 || t.Cost(e, h, l) < best.Cost(e, h, l) ||
				t.Cost(e, h, l) == best.Cost(e, h, l) && t.EP > best.EP {
				best = t
			}
		}
	}
	return best
}

func ceil(n, d int) int { return (n + d - 1) / d }
