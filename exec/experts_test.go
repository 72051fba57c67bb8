package exec

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestExpertsReadRowsInPlace: experts with tiled weights have no memory for copies of their
// rows, and computing many rows at once gives the same as computing each alone. Float weights,
// which need copies, are the counterexample.
func TestExpertsReadRowsInPlace(t *testing.T) {
	for _, dir := range expertDirs(t) {
		for _, mix := range []string{"", "q4"} {
			t.Run(filepath.Base(dir)+mix, func(t *testing.T) {
				f, err := modelfile.Open(vfs.OS(), dir)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, f.Close()) })
				if mix != "" {
					require.NoError(t, f.Quantize(mix, nil))
				}
				m, err := Load(context.Background(), f, Options{Threads: 2, Chunk: 64})
				require.NoError(t, err)
				t.Cleanup(m.Close)
				require.Equal(t, mix != "", m.pass.experts.routing.copies == nil)
				ids := longPrompt(m.Spec.Vocab, 70, 9)
				require.Equal(t, inSteps(t, m, ids), allLogits(t, m, ids))
			})
		}
	}
}

// TestMatmulsShareAnInput: matmuls share a quantized input only if they read the same rows of
// the same vectors.
func TestMatmulsShareAnInput(t *testing.T) {
	x, other := make([]float32, 8), make([]float32, 8)
	of := []int32{3, 1, 0}
	w := &weights.Linear{Matrix: weights.Matrix{Cols: 2}}
	in := matmulInput{x: x, rowIndex: of[:2]}
	require.True(t, in.readsSameRows(&matmul{w: w, x: x, rowIndex: of[:2]}))
	for _, j := range []matmul{{x: other, rowIndex: of[:2]}, {x: x, rowIndex: of[1:]}, {x: x, rowIndex: of}, {x: x}} {
		j.w = w
		require.False(t, in.readsSameRows(&j))
	}
	x[6], x[7] = 5, 6
	require.Equal(t, []float32{5, 6}, (&matmul{w: w, x: x, rowIndex: of}).row(0))
	require.Equal(t, []float32{5, 6}, (&matmul{w: w, x: x}).row(3))
}
