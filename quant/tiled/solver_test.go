package tiled

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSolve checks the tiles of models against published ones.
func TestSolve(t *testing.T) {
	for _, test := range []struct {
		name  string
		model TileModel
		want  Tile
	}{
		{"the tile of this package", ModelAVX512, Tile{TileTokens, TileRows, laneBytes}},
		{"published for SDOT", ModelSDOT, Tile{12, 8, 4}},
		{"published for I8MM", ModelI8MM, Tile{10, 8, 8}},
		{"AVX2, published as 4,8,4", ModelAVX2Row, Tile{8, 8, 4}},
		{"AVX-512, published as 4,64,4", ModelAVX512Row, Tile{28, 16, 4}},
		{"too few registers", TileModel{Registers: 2, Lanes: 4, Depth: 4, RowStep: 4, TokenStep: 4}, Tile{}},
	} {
		got := Solve(test.model)
		require.Equal(t, test.want, got, test.name)
		require.LessOrEqual(t, test.model.RegistersFor(got), test.model.Registers, test.name)
	}
}

// TestSolveFindsTheMinimum checks that no other tile that fits the registers costs less.
func TestSolveFindsTheMinimum(t *testing.T) {
	for _, m := range []TileModel{ModelAVX512, ModelSDOT, ModelI8MM, ModelAVX2Row, ModelAVX512Row} {
		best := Solve(m).Cost(64, 64, 4096)
		for hp := m.RowStep; hp <= 256; hp += m.RowStep {
			for ep := m.TokenStep; ep <= 256; ep += m.TokenStep {
				if other := (Tile{ep, hp, m.Depth}); m.RegistersFor(other) <= m.Registers {
					require.GreaterOrEqual(t, other.Cost(64, 64, 4096), best*0.999, "%s", other)
				}
			}
		}
	}
}

// BenchmarkTile compares token counts of a tile on a panel that is decoded once.
func BenchmarkTile(b *testing.B) {
	const cols = panelGroups * GroupElems
	for _, typ := range benchTypes[:1] {
		m, f := benchMatrix(typ, TileRows, cols), formats[typ]
		for _, width := range []int{1, 2, 4, 8, 16} {
			b.Run(fmt.Sprintf("%s/tokens=%d", typ, width), func(b *testing.B) {
				a := activationsOf(randomVector(width*cols, 2), cols, width)
				s := NewScratch(width)
				active.decode(&s.panel, f, m.Data, cols/typ.BlockElems())
				const times = 16 // exceeds the resolution of the clock
				took := fastest(b, func() {
					for range times {
						s.multiplyCodes(f, &s.panel.codes[0], a, 0, panelGroups)
					}
				})
				rate := 2 * TileRows * cols * times * float64(width) / took.Seconds()
				b.ReportMetric(rate/1e9, "Gop/s")
				b.ReportMetric(100*rate/corePeak(), "%peak")
			})
		}
	}
}
