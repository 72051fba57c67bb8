package tiled

import "fmt"

// TileModel describes the vector registers and the dot-product instruction of a
// processor, from which Solve derives the best tile of a GEMM kernel.
type TileModel struct {
	Registers int // vector registers
	Lanes     int // 32-bit sums per register
	Depth     int // elements of a row that a lane multiplies per instruction: lp
	RowStep   int // rows per register of sums or codes
	TokenStep int // the tile's tokens are a multiple of this
	// Indexed means that a register holds elements of several tokens and the
	// instruction selects one by index. Otherwise the kernel broadcasts one token's
	// elements at a time.
	Indexed bool
	// Scratch is the number of registers for intermediate results.
	Scratch int
	// Group is the number of elements that share a scale, or 0 if a whole row does.
	// With groups, all codes of a group stay in registers while the kernel iterates
	// over the tokens, along with the scales and InFlight integer sums.
	Group    int
	InFlight int // tokens computed concurrently, to hide latency
	Scales   int // registers of scales, mins and values derived from them, per register of rows
}

// Tile is the shape that a kernel computes in registers: EP tokens times HP rows,
// LP elements per instruction.
type Tile struct{ EP, HP, LP int }

func (t Tile) String() string { return fmt.Sprintf("%d,%d,%d", t.EP, t.HP, t.LP) }

// Models of the instruction sets that this package has kernels for, and of those
// in the paper on mobile inference that [Solve] follows.
var (
	// ModelAVX512 is VPDPBUSD with a broadcast memory operand, for groups of 32.
	// It yields this package's tile, which takes 31 registers: 16 float sums, 8
	// codes, 4 integer sums in flight and 3 scales.
	ModelAVX512 = TileModel{
		Registers: 32, Lanes: 16, Depth: 4, RowStep: 16, TokenStep: 4,
		Group: GroupElems, InFlight: 4, Scales: 3,
	}
	// ModelSDOT and ModelI8MM are for weights with one scale per row. SDOT selects
	// one of four tokens in a register; SMMLA multiplies 2×8 with 8×2 matrices.
	ModelSDOT = TileModel{Registers: 32, Lanes: 4, Depth: 4, RowStep: 4, TokenStep: 4, Indexed: true}
	ModelI8MM = TileModel{Registers: 32, Lanes: 4, Depth: 8, RowStep: 2, TokenStep: 2, Indexed: true}
	// ModelAVX2Row and ModelAVX512Row are for one scale per row too. AVX2 needs
	// three scratch registers: 16-bit products, widened products, and the ones for
	// VPMADDWD.
	ModelAVX2Row   = TileModel{Registers: 16, Lanes: 8, Depth: 4, RowStep: 8, TokenStep: 4, Scratch: 3}
	ModelAVX512Row = TileModel{Registers: 32, Lanes: 16, Depth: 4, RowStep: 16, TokenStep: 4}
)

// RegistersFor returns the number of registers that a kernel with tile t needs.
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

// Cost returns the number of elements that a matmul of e tokens with h rows of l
// elements loads and stores. Every tile loads its tokens and rows once and stores
// its results once.
func (t Tile) Cost(e, h, l int) float64 {
	tiles := float64(e) / float64(t.EP) * float64(h) / float64(t.HP)
	return tiles * float64(l*t.EP+l*t.HP+t.HP*t.EP)
}

// Solve returns the tile with the lowest Cost for large matmuls that fits into the
// registers. Between tiles of equal cost it prefers the one with more tokens.
//
// With one scale per row, Solve finds the tiles that the paper publishes for SDOT
// (12,8,4) and I8MM (10,8,8). The paper's condition, ep + hp + hp·ep ≤ registers,
// excludes both (12 + 8 + 96 > 32); they fit if sums are counted in lanes, as here.
// Solve does not confirm the published tiles for AVX2 (4,8,4) and AVX-512 (4,64,4):
// AVX2 has registers for 8 tokens, and on AVX-512 a tile of 28 tokens and 16 rows
// loads 0.10 elements per multiply-add, a tile of 4 tokens and 64 rows 0.27.
//
// With groups, AVX-512 needs registers for codes and sums in flight too. A tile of
// 32 rows would leave only 2 registers for sums.
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
