package exec

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestPacksGiveTheSameLogits compares the logits of real quantized files and their packs.
func TestPacksGiveTheSameLogits(t *testing.T) {
	for _, path := range testutil.Glob(t, "gguf", "*.gguf") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			packed := modeltest.ImportModel(t, vfs.OS(), path)
			for _, exact := range []bool{false, true} {
				o := Options{Threads: 2, Exact: exact}
				direct := loadModel(t, vfs.OS(), path, o)
				ids := longPrompt(direct.Spec.Vocab, 40, 3)
				require.Equal(t, allLogits(t, direct, ids), allLogits(t, loadModel(t, packed, "m.pack", o), ids), "exact: %v", exact)
			}
		})
	}
}

// TestDamagedPackIsNotLoaded flips a byte of the weights.
func TestDamagedPackIsNotLoaded(t *testing.T) {
	packed := modeltest.ImportModel(t, modeltest.TinyGGUF().Write(t), "m.gguf")
	data, err := vfs.ReadFile(packed, "m.pack", 1<<30)
	require.NoError(t, err)
	f, err := modelfile.Open(packed, "m.pack")
	require.NoError(t, err)
	at, ok := f.Packed().Find("blk.0.ffn_down.weight")
	require.True(t, ok)
	tensor, _ := f.Source.Tensor(at.Name)
	require.NoError(t, f.Close())
	data[tensor.Offset+5] ^= 4
	require.NoError(t, vfs.WriteFile(packed, "m.pack", data))
	require.ErrorContains(t, openAndLoad(packed, "m.pack"), `section "blk.0": checksum mismatch`)
}
