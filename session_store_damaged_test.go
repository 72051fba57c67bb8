package llmrun_test

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// TestDamagedPagesAreRePrefilled damages saved segments whose pages stay on flash, where they
// are verified when attention reads them. The answer does not change, the engine reports the
// damage, and the files are replaced, with and without a named session.
func TestDamagedPagesAreRePrefilled(t *testing.T) {
	t.Parallel()
	model := longTextModel(t)
	steps := [][]int32{document(1100), {40, 41}, {42}}
	var want [][]int32
	alone := newSession(t, open(t, model, llmrun.Options{Memory: llmrun.MemoryOptions{KV: "k8v8"}}))
	for _, step := range steps {
		want = append(want, ids(t, alone, step, 4))
	}
	for _, name := range []string{"", "book"} {
		t.Run("session "+name, func(t *testing.T) {
			var notices []string
			o := llmrun.Options{Notify: func(text string) { notices = append(notices, text) }, Cache: llmrun.CacheOptions{KVDir: t.TempDir()}, Memory: llmrun.MemoryOptions{KV: "k8v8"}}
			var held []int32
			ask := func(i int) llmrun.Stats {
				e := open(t, model, o)
				defer e.Close()
				s, text := newSession(t, e), slices.Concat(held, steps[i])
				if name != "" {
					s, text = openSession(t, e, name, llmrun.SessionOptions{}), steps[i]
				}
				require.Equal(t, want[i], ids(t, s, text, 4))
				held = slices.Concat(held, steps[i], want[i])
				if name != "" {
					require.NoError(t, s.Save(""))
				}
				return s.Stats()
			}
			ask(0)
			require.Empty(t, notices)
			files := kvFiles(t, o.Cache.KVDir)
			require.Len(t, files, 2)
			for _, file := range files {
				info, err := os.Stat(file)
				require.NoError(t, err)
				damage(t, file, int(info.Size())*2/3)
			}

			o.Memory.KVRAM, o.Memory.Chunk = 1, 64
			stats := ask(1)
			require.NotEmpty(t, notices)
			require.Contains(t, notices[0], "is damaged")
			require.Less(t, stats.ReusedTokens, 1000, "re-prefilled tokens are not reused")
			require.LessOrEqual(t, stats.RestoredTokens, stats.ReusedTokens)

			notices = nil
			stats = ask(2)
			require.Empty(t, notices)
			require.Equal(t, 1088, stats.RestoredTokens, "the damaged pages were replaced")
			if name != "" {
				_, err := llmrun.VerifySession(o.Cache.KVDir, name)
				require.NoError(t, err)
			}
		})
	}
}
