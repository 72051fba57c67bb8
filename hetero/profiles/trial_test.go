package profiles_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero/profiles"
)

// TestTrialsAreKept: one for the same passes on the same devices, and none that cannot
// be.
func TestTrialsAreKept(t *testing.T) {
	dir, keys := t.TempDir(), profiles.Keys{"cpu", "gpu"}
	passes := profiles.Passes{Products: "1 attn_q", Chunk: 32}
	for _, took := range []time.Duration{time.Second, time.Minute, -1} {
		f, notice := profiles.Load(dir)
		require.Empty(t, notice)
		f.AddTrial(keys, profiles.Trial{Passes: passes, Planned: profiles.Took{Token: took}})
		f.AddCopy(keys, profiles.Copied{Tokens: 1, Width: 8, Took: took})
		require.NoError(t, f.Save(dir))
		f, notice = profiles.Load(dir)
		require.Empty(t, notice)
		result := f.Trial(keys, passes)
		copied, known := f.Copy(keys, 1, 8)
		require.Equal(t, took >= 0, known)
		if took < 0 {
			require.Nil(t, result)
			continue
		}
		require.Equal(t, took, result.Planned.Token)
		require.Equal(t, took, copied)
		require.Nil(t, f.Trial(profiles.Keys{"cpu", "npu"}, passes))
		require.Nil(t, f.Trial(keys, profiles.Passes{Products: "1 attn_q", Chunk: 64}))
		require.Nil(t, f.Trial(keys, profiles.Passes{Products: "2 attn_q", Chunk: 32}))
		require.Nil(t, f.Trial(keys, profiles.Passes{Products: "1 attn_q", Chunk: 32, Exact: true}))
		_, known = f.Copy(keys, 2, 8)
		require.False(t, known)
		require.Len(t, f.Pairs["cpu + gpu"].Trials, 1)
		require.Len(t, f.Pairs["cpu + gpu"].Copies, 1)
	}
}
