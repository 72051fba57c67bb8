package llmrun_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// TestSessionsWithinDailyWrites saves a session under a limit that has room for two of its
// pages: the text is saved in any case, one notice names the limit, and the count of the day
// covers what was written.
func TestSessionsWithinDailyWrites(t *testing.T) {
	for _, writes := range []int64{0, llmrun.NoWrites} {
		var notices []string
		dir := t.TempDir()
		o := llmrun.Options{
			Notify: func(text string) { notices = append(notices, text) }, Memory: llmrun.MemoryOptions{KV: "k8v8"},
			Cache: llmrun.CacheOptions{KVDir: dir, NoKV: true, DailyWrites: writes},
		}
		e := open(t, longTextModel(t), o)
		page := int64(e.KVUse().PageBytes)
		if writes == 0 {
			require.Equal(t, &llmrun.CacheWrites{Limit: llmrun.DefaultDailyWrites}, e.CacheWrites())
			o.Cache.DailyWrites = 5 * page / 2
			e = open(t, longTextModel(t), o)
		}
		s := openSession(t, e, "talk", llmrun.SessionOptions{})
		ids(t, s, document(130), 1)
		require.NoError(t, s.Save(""))
		saved := e.CacheWrites().Today
		ids(t, s, document(300), 1)
		require.NoError(t, s.Save(""))
		ids(t, s, document(40), 1)
		require.NoError(t, s.Save(""), "the text is saved")
		shown, err := llmrun.ShowSession(dir, "talk")
		require.NoError(t, err)
		require.Equal(t, s.Len(), shown.Tokens)
		if writes == llmrun.NoWrites {
			require.Zero(t, shown.SavedTokens)
			require.Empty(t, notices, "the user wants no writes")
			require.Equal(t, &llmrun.CacheWrites{}, e.CacheWrites())
			continue
		}
		require.Equal(t, 128, shown.SavedTokens)
		require.Len(t, notices, 1)
		require.Contains(t, notices[0], "the daily limit of writes is reached")
		require.Contains(t, notices[0], "--cache-writes")
		require.Equal(t, saved, e.CacheWrites().Today)
		files, err := filepath.Glob(filepath.Join(dir, "kv", "*.kv"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		info, err := os.Stat(files[0])
		require.NoError(t, err)
		require.Equal(t, info.Size(), saved)
		require.NoError(t, e.Close())
		count, err := os.ReadFile(filepath.Join(dir, "writes"))
		require.NoError(t, err)
		require.Contains(t, string(count), fmt.Sprint(" ", saved, "\n"), "Close returns what was not written")
	}
}

// TestSpillsWithinDailyWrites: beyond the limit, pages stay in memory and the answer is the
// same; without memory the generation ends with an error that names the limit.
func TestSpillsWithinDailyWrites(t *testing.T) {
	ctx := context.Background()
	path := wide(t)
	options := llmrun.Options{Threads: 2, Context: 4096, Memory: llmrun.MemoryOptions{Chunk: 64, KV: "f32", RAM: llmrun.NoLimit}}
	ids := someIDs(open(t, path, options), 700)
	o := limit(8)
	o.IgnoreEOS = true
	want := complete(t, newSession(t, open(t, path, options)).GenerateIDs(ctx, ids, o)).IDs

	options.Cache = llmrun.CacheOptions{KVDir: t.TempDir(), NoKV: true, DailyWrites: 100 << 10}
	options.Memory.KVRAM = 1
	e := open(t, path, options)
	require.Equal(t, want, complete(t, newSession(t, e).GenerateIDs(ctx, ids, o)).IDs)
	use := e.KVUse()
	require.LessOrEqual(t, use.Written, int64(100<<10))
	require.Contains(t, use.Failed, "the daily limit of writes is reached")
	require.Regexp(t, `[0-9.]+ [KM]iB more would exceed the limit of [0-9.]+ [KM]iB; allow more writes a day \(--cache-writes\)`, use.Failed)
	require.Greater(t, use.HotPages, use.ColdPages)
	require.LessOrEqual(t, e.CacheWrites().Today, int64(100<<10))

	options.Memory.KVRAM = 0
	options.Memory.RAM = minimum(t, path, options)
	e = open(t, path, options)
	a := collect(newSession(t, e).GenerateIDs(ctx, ids, o))
	require.ErrorIs(t, a.err, llmrun.ErrBudget)
	require.ErrorIs(t, a.err, llmrun.ErrWritesSpent)
	require.ErrorContains(t, a.err, "--cache-writes")

	options.Cache.DailyWrites = llmrun.NoWrites
	require.Greater(t, minimum(t, path, options), options.Memory.RAM, "the plan counts on no spills")
	options.Cache.DailyWrites = -3
	_, err := llmrun.Open(path, options)
	require.ErrorIs(t, err, llmrun.ErrOptions)
}
