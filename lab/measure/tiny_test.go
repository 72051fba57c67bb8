package measure

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/bench"
)

// tinyModel writes a small model.
func tinyModel(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.gguf")
	_, err := bench.Synth(t.Context(), bench.SynthOptions{Path: path, Shape: "tiny", Quant: "q4_0"})
	require.NoError(t, err)
	return path
}
