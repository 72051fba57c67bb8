package deviceplan

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/internal/bench"
	"github.com/llmrun/llmrun/quant"
)

// TestMatmulsOfShapesAndFiles checks that a shape has the same matmuls as the model file that synth
// writes, except for their names.
func TestMatmulsOfShapesAndFiles(t *testing.T) {
	for _, shape := range []string{"tiny", "tiny-moe"} {
		path := filepath.Join(t.TempDir(), "m.gguf")
		_, err := bench.Synth(t.Context(), bench.SynthOptions{Path: path, Shape: shape, Quant: "q4_0"})
		require.NoError(t, err)
		ofFile, err := (&ModelSource{Path: path}).matmuls()
		require.NoError(t, err)
		ofShape, err := (&ModelSource{Shape: shape, Quant: "q4_0"}).matmuls()
		require.NoError(t, err)
		require.Equal(t, sizes(ofFile), sizes(ofShape), shape)
		last := ofFile[len(ofFile)-1]
		require.Equal(t, "output", last.Name)
		require.True(t, last.LastTokenOnly)
	}
	_, err := (&ModelSource{Path: "nothing.gguf"}).matmuls()
	require.Error(t, err)
}

// sizes counts matrices by type and size.
func sizes(list []weights.Matmul) map[weights.Matmul]int {
	count := map[weights.Matmul]int{}
	for _, p := range list {
		n := p.Count
		p.Name, p.Count = "", 0
		count[p] += n
	}
	return count
}

// TestOpsFor checks that opsFor returns one op for each size of matmul, and the output head only for
// one token.
func TestOpsFor(t *testing.T) {
	list := opsFor([]weights.Matmul{
		{Name: "k", Type: quant.Q8_0, Rows: 8, Cols: 32, Count: 2},
		{Name: "v", Type: quant.Q8_0, Rows: 8, Cols: 32, Count: 2},
		{Name: "output", Type: quant.Q6_K, Rows: 64, Cols: 32, Count: 1, LastTokenOnly: true},
	}, []int{1, 16})
	require.Equal(t, []hetero.Op{
		{Tokens: 1, Rows: 8, Cols: 32, Type: quant.Q8_0, Streamed: true},
		{Tokens: 16, Rows: 8, Cols: 32, Type: quant.Q8_0, Streamed: true},
		{Tokens: 1, Rows: 64, Cols: 32, Type: quant.Q6_K, Streamed: true},
	}, list)
	rows := func(list []hetero.Op) (rows []int) {
		for _, op := range list {
			rows = append(rows, op.Rows)
		}
		return rows
	}
	require.Equal(t, []int{1000, 512, 256}, rows(Samples([]hetero.Op{{Tokens: 1, Rows: 1000, Cols: 32}})))
	ops := []hetero.Op{{Tokens: 32, Rows: 8960}, {Tokens: 1, Rows: 100}, {Tokens: 1, Rows: 600}}
	held := heldOutOps(ops, Samples(ops))
	require.Equal(t, []int{3328}, rows(held), "held-out ops exclude the samples")
	require.Equal(t, 40, held[0].Tokens)
}
