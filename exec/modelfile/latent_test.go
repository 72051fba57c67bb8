package modelfile

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestAdaptersOfLatentHeadsAreRefused: the matrices of keys and values appear as two other tensors, which a
// change of the stored one would not reach.
func TestAdaptersOfLatentHeadsAreRefused(t *testing.T) {
	f, err := Open(vfs.OS(), testutil.Shared(t, "fixtures2026", "deepseek_v2"))
	require.NoError(t, err)
	defer f.Close()
	m, root := f.newMerged(f.Source), f.TensorSet().root
	_, err = m.target("model.layers.0.self_attn.kv_b_proj", root, "adapter")
	require.ErrorIs(t, err, arch.ErrUnsupported)
	require.ErrorContains(t, err, "adapter: the adapter changes model.layers.0.self_attn.kv_b_proj.weight")
	_, err = m.target("model.layers.0.self_attn.o_proj", root, "adapter")
	require.NoError(t, err)
}

// TestEncodersAreRefused: a text encoder has the tensors of a decoder, but attends to both sides.
func TestEncodersAreRefused(t *testing.T) {
	_, err := Open(vfs.OS(), testutil.Shared(t, "fixtures2026", "embeddinggemma"))
	require.ErrorIs(t, err, arch.ErrUnsupported)
	require.ErrorContains(t, err, "use_bidirectional_attention")
}
