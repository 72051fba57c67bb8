package gguf

import (
	"math"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/vfs"
)

// lowBitFile holds what the reference decoder computes from a file's tensors: the first values of
// some rows, and a weighted sum of every row.
type lowBitFile struct {
	Rows    map[string]map[string][]float32 `json:"rows"`
	RowSums map[string][]float64            `json:"row_sums"`
}

// TestLowBitRowsAreExact checks the values of every low-bit type in files of the reference
// quantizer. The repository holds a file with each type; in those beside the checkout, together with them, every entry of every
// code book occurs.
func TestLowBitRowsAreExact(t *testing.T) {
	types := map[quant.Type]bool{}
	for _, path := range testutil.Glob(t, "gguf_lowbit", "*.gguf") {
		var expected struct{ Files map[string]lowBitFile }
		testutil.ReadJSON(t, filepath.Join(filepath.Dir(path), "expected.json"), &expected)
		f, err := Open(vfs.OS(), path)
		require.NoError(t, err)
		want, ok := expected.Files[filepath.Base(path)]
		require.True(t, ok, path)
		for name, rows := range want.Rows {
			values := decoded(t, f, name)
			tensor, _ := f.Tensor(name)
			types[tensor.Type] = true
			for row, first := range rows {
				i, err := strconv.Atoi(row)
				require.NoError(t, err)
				require.Equal(t, first, values[i][:len(first)], "%s: %s, row %s", path, name, row)
			}
		}
		for name, sums := range want.RowSums {
			values := decoded(t, f, name)
			require.Len(t, values, len(sums))
			for row, want := range sums {
				var sum float64
				for i, v := range values[row] {
					sum += float64(v) * float64(37*i%101-50)
				}
				require.InDelta(t, want, sum, 1e-7*math.Max(math.Abs(want), 1e-3), "%s: %s, row %d", path, name, row)
			}
		}
		require.NoError(t, f.Close())
	}
	for _, typ := range []quant.Type{
		quant.IQ1_S, quant.IQ1_M, quant.IQ2_XXS, quant.IQ2_XS, quant.IQ2_S, quant.IQ3_XXS, quant.IQ3_S,
		quant.TQ1_0, quant.TQ2_0, quant.Q1_0, quant.Q2_0, quant.NVFP4,
	} {
		require.True(t, types[typ], "no file has rows of type %v", typ)
	}
}

// decoded returns the rows of a tensor.
func decoded(t *testing.T, f *File, name string) (rows [][]float32) {
	t.Helper()
	tensor, ok := f.Tensor(name)
	require.True(t, ok, name)
	raw := make([]byte, tensor.Size)
	_, err := f.ReadAt(tensor, raw, 0)
	require.NoError(t, err)
	cols := tensor.Shape[len(tensor.Shape)-1]
	size, err := tensor.Type.RowBytes(cols)
	require.NoError(t, err)
	for ; len(raw) > 0; raw = raw[size:] {
		row := make([]float32, cols)
		quant.DequantRow(tensor.Type, row, raw)
		rows = append(rows, row)
	}
	return rows
}
