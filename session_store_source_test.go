package llmrun_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/store/synth"
)

// TestSessionOfImportedModel saves a session with a pack and opens it with the model's own
// file, which some options require, and vice versa. Both have the same keys and values.
func TestSessionOfImportedModel(t *testing.T) {
	shape, ok := synth.FindShape("tiny")
	require.True(t, ok)
	model := writeShape(t, shape, "q4_0")
	imported := llmrun.Options{Cache: llmrun.CacheOptions{Dir: t.TempDir()}}
	exact := imported
	exact.Exact = true
	as := llmrun.Options{Cache: llmrun.CacheOptions{KVDir: imported.Cache.Dir}}
	prompt := document(100)
	for i := range prompt {
		prompt[i] %= int32(shape.Vocab)
	}
	held := 0
	for i, o := range []llmrun.Options{imported, exact, as, imported} {
		e := open(t, model, o)
		other := i == 1 || i == 2 // exact keys and values are others
		if other {
			_, err := e.OpenSession("a", llmrun.SessionOptions{})
			require.ErrorIs(t, err, llmrun.ErrOtherSettings)
		}
		s := openSession(t, e, "a", llmrun.SessionOptions{RePrefill: other})
		require.Equal(t, held, s.Len())
		ids(t, s, prompt, 4)
		require.Equal(t, i >= 2, s.Stats().RestoredTokens > 0, "of session or prompt %d", i)
		require.NoError(t, s.Save(""))
		held = s.Len()
		require.NoError(t, e.Close())
	}
}
