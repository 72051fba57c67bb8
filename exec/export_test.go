package exec

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestGGUFExportsMatchTheCheckpoints exports every fixture to GGUF as the usual converter does,
// and compares all logits with those of the checkpoint.
func TestGGUFExportsMatchTheCheckpoints(t *testing.T) {
	for _, dir := range modeltest.FixtureDirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			var ref reference
			testutil.ReadJSON(t, filepath.Join(dir, "reference.json"), &ref)
			options := Options{Threads: 2, Chunk: 64}
			checkpoint := loadModel(t, vfs.OS(), dir, options)
			exported := loadModel(t, modeltest.ExportFixture(t, dir).Write(t), "m.gguf", options)
			for _, p := range ref.Prompts {
				sameLogits(t, allLogits(t, checkpoint, p.IDs), allLogits(t, exported, p.IDs))
			}
		})
	}
}

// sameLogits allows only for another order of summation: interleaved heads add up the products
// of a query and a key in another order.
func sameLogits(t *testing.T, want, got [][]float32) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		testutil.RequireNear(t, want[i], got[i], 1e-4, "position %d", i)
		require.Equal(t, argmax(want[i]), argmax(got[i]), "position %d", i)
	}
}
