//go:build !noasm

package tiled

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// TestNEONPanels checks that NEON panels equal portable panels after subtracting the
// format's zero point from the portable codes.
func TestNEONPanels(t *testing.T) {
	for typ, f := range formats {
		blocks := max(1, panelGroups*GroupElems/typ.BlockElems())
		cols := blocks * typ.BlockElems()
		m := packed(t, typ, randomRows(typ, TileRows, cols, 21), TileRows, cols)
		want, got := newPanel(), newPanel()
		portable{}.decode(&want, f, m.Data, blocks)
		neon{}.decode(&got, f, m.Data, blocks)
		for i := range want.codes {
			want.codes[i] -= uint8(f.zero)
		}
		require.Equal(t, want.codes, got.codes, "%s", typ)
		require.Equal(t, want.scales, got.scales, "%s", typ)
		require.Equal(t, want.factors, got.factors, "%s", typ)
		if f.hasMin() {
			require.Equal(t, want.mins, got.mins, "%s", typ)
		}
	}
}

// TestNEONQuantization checks that NEON quantizes activations to the same bits as the
// portable path, including fields that only other paths read.
func TestNEONQuantization(t *testing.T) {
	const groups = 9
	nan, inf, least := float32(math.NaN()), float32(math.Inf(1)), math.Float32frombits(minMagnitudeBits)
	x := make([]float32, 0, groups*GroupElems)
	for _, most := range []float32{0, least, math.Nextafter32(least, 0), 1, -127, math.MaxFloat32, inf, nan} {
		group := randomVector(GroupElems, 24)
		for i := range group {
			group[i] *= most / 8
		}
		group[19] = most
		x = append(x, group...)
	}
	for i := range GroupElems { // ties, which round to even
		x = append(x, float32(i)+0.5)
	}
	x[len(x)-1] = 127

	for _, tokens := range []int{1, 4} {
		rounded := func(path kernels) *Activations {
			usePath(t, path)
			all := make([]float32, 0, tokens*len(x))
			for range tokens {
				all = append(all, x...)
			}
			return activationsOf(all, len(x), tokens)
		}
		want, got := rounded(portable{}), rounded(neon{})
		require.Equal(t, want.codes, got.codes)
		requireSame(t, want.scale, got.scale, "scale")
		requireSame(t, want.shift, got.shift, "shift")
		require.Equal(t, want.start, got.start)
		require.Equal(t, want.halfStart, got.halfStart)
	}
}

// TestNEONExponents checks the scales of all 256 exponents, including subnormal powers.
func TestNEONExponents(t *testing.T) {
	var exponents [256]byte
	for i := range exponents {
		exponents[i] = byte(i)
	}
	var got [256]float32
	scalesExponentNEON(&got[0], &exponents[0], TileRows, len(exponents)/TileRows)
	f := format{exponent: true}
	for i, e := range exponents {
		require.Equal(t, f.base(&rowBlock{exponent: e}), got[i], "exponent %d", e)
	}
}

// TestNEONDoesNotAllocate checks that quantization and products do not allocate.
func TestNEONDoesNotAllocate(t *testing.T) {
	const cols = 512
	forEachPath(t, func(t *testing.T, path kernels) {
		usePath(t, path)
		for typ := range formats {
			m := packed(t, typ, randomRows(typ, TileRows, cols, 22), TileRows, cols)
			for _, tokens := range []int{1, 2, 4} {
				x := randomVector(tokens*cols, 23)
				a, s, y := activationsOf(x, cols, tokens), NewScratch(tokens), make([]float32, tokens*TileRows)
				require.Zero(t, testutil.AllocsPerRun(2, 0, func() {
					a.Set(0, x[:cols])
					Multiply(y, m, 0, 1, a, s)
				}), "%s, %d tokens", typ, tokens)
			}
		}
	})
}
