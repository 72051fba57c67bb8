//go:build !noasm

package tiled

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLowKernelsAVX2 checks that every low-bit format has a decoder, and that it writes the same
// panel as the portable code: also for a last block of rows of several.
func TestLowKernelsAVX2(t *testing.T) {
	if !slices.Contains(paths(), kernels(avx2{})) {
		t.Skip("the processor lacks AVX2")
	}
	for typ, f := range formats {
		if f.low == nil {
			continue
		}
		kernel := avx2Low[typ]
		require.NotNil(t, kernel.decode, "%s", typ)
		for _, blocks := range []int{1, panelGroups * GroupElems / typ.BlockElems()} {
			cols := blocks * typ.BlockElems()
			m := packed(t, typ, randomRows(typ, TileRows, cols, 21), TileRows, cols)
			want, got := newPanel(), newPanel()
			for b := range blocks {
				size := len(m.Data) / blocks
				want.decodeLow(f, m.Data[b*size:][:size], b*f.low.groups, signedZeros)
			}
			got.decodeLowBlocks(f, m.Data, blocks, kernel, signedZeros)
			require.Equal(t, want.codes, got.codes, "%s, %d blocks", typ, blocks)
			require.Equal(t, want.scales, got.scales, "%s, %d blocks", typ, blocks)
			require.Equal(t, want.factors, got.factors, "%s, %d blocks", typ, blocks)
		}
	}
}
