package llmrun_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

// TestDemoAnswersWithContextOnFlash asks for facts in long texts with nine tenths of the keys
// and values on flash: in one text of each length, or in both with LLMRUN_TEST_SWEEP=1.
func TestDemoAnswersWithContextOnFlash(t *testing.T) {
	t.Parallel()
	for i, c := range demoReference(t).LongContext {
		if i%testutil.Effort(2, 1) != 0 {
			continue
		}
		t.Run(fmt.Sprintf("%d-%d", i, c.Tokens), func(t *testing.T) {
			if c.Tokens > affordable() {
				t.Skip("a long context; LLMRUN_TEST_LONG=1 reads it")
			}
			dir := t.TempDir()
			e := open(t, demoModel, llmrun.Options{Threads: 2, Memory: llmrun.MemoryOptions{Chunk: 16, KVRAM: 1}, Cache: llmrun.CacheOptions{KVDir: dir}})
			s := newSession(t, e)
			a := complete(t, s.GenerateIDs(context.Background(), c.Prompt, limit(len(c.Want))))
			require.Equal(t, c.Want, a.IDs, "%q, not %q", a.Text, c.Text)
			use := e.KVUse()
			t.Logf("%+v", use)
			require.GreaterOrEqual(t, use.ColdPages, 9*use.HotPages, "nine tenths")
			require.Positive(t, s.Stats().DecodeKV.Read)
			once := int64((use.ColdPages + use.AheadPages) * use.PageBytes)
			require.GreaterOrEqual(t, use.Written, once)
			require.Less(t, use.Written, once+int64(17*use.PageBytes), "each byte is written once, and a segment may be in flight")
			files, err := os.ReadDir(dir)
			require.NoError(t, err)
			for _, f := range files {
				require.Contains(t, []string{"kv", "hashes", "hashes-fresh", "writes", "writes.lock"}, f.Name())
			}
		})
	}
}

// TestConversationLongerThanMemory runs a session whose keys and values exceed the budget,
// while weights are streamed too; in every second run, keys and values are encrypted. The tokens
// do not change, the peak stays within the budget, and Trim moves more pages to flash.
func TestConversationLongerThanMemory(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	path := wide(t)
	options := llmrun.Options{Threads: 2, Context: 4096, Memory: llmrun.MemoryOptions{Chunk: 64, RAM: llmrun.NoLimit}}
	whole := open(t, path, options)
	tokens, budgets := 1800, []int64{0, 0, 12 << 20} // bytes above the minimum
	if portable() {
		tokens, budgets = 320, budgets[:2]
	}
	ids := someIDs(whole, tokens)
	o := limit(40)
	o.IgnoreEOS = true
	want := complete(t, newSession(t, whole).GenerateIDs(ctx, ids, o)).IDs

	warm := minimum(t, path, options)
	options.Cache.KVDir = t.TempDir()
	require.Less(t, minimum(t, path, options), warm)
	keys := []string{"", keyFile(t, 1)}
	for i, more := range budgets {
		options.Cache.KeyFile = keys[i%2]
		options.Memory.RAM = minimum(t, path, options) + more
		t.Run(fmt.Sprint(i), func(t *testing.T) { runWithinBudget(t, path, options, ids, want, more == 0) })
	}
}

// runWithinBudget continues ids with the wanted tokens within a budget. least states that the
// budget is the minimum.
func runWithinBudget(t *testing.T, path string, options llmrun.Options, ids, want []int32, least bool) {
	ctx := context.Background()
	o := limit(len(want))
	o.IgnoreEOS = true
	e := open(t, path, options)
	s := newSession(t, e)
	require.Equal(t, want, complete(t, s.GenerateIDs(ctx, ids, o)).IDs)
	var peak int64
	for _, n := range e.Memory().Peak {
		peak += n
	}
	require.LessOrEqual(t, peak, options.Memory.RAM)
	before := e.KVUse()
	if least {
		require.Positive(t, before.ColdPages)
	}
	trim(t, e, llmrun.TrimCritical)
	require.LessOrEqual(t, e.KVUse().HotPages, before.HotPages)
	o = limit(5)
	o.IgnoreEOS = true
	one := complete(t, s.GenerateIDs(ctx, ids[:100], o)).IDs
	require.NoError(t, e.SetBudget(llmrun.NoLimit))
	require.NoError(t, s.Reset())
	all := append(append(append([]int32{}, ids...), want...), ids[:100]...)
	require.Equal(t, one, complete(t, s.GenerateIDs(ctx, all, o)).IDs)
}

// TestStreamReadsKeysAndValuesToo changes the budget of a conversation whose keys and values are on
// flash. While weights are streamed, the stream reads both, and no other ring is in memory; a
// smaller budget frees that of the resident model. The tokens do not change.
func TestStreamReadsKeysAndValuesToo(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	path := wide(t)
	options := llmrun.Options{Threads: 2, Context: 1024, Memory: llmrun.MemoryOptions{Chunk: 64, RAM: llmrun.NoLimit}}
	whole := open(t, path, options)
	ids, o := someIDs(whole, 900), limit(30)
	o.IgnoreEOS = true
	plain := newSession(t, whole)
	options.Cache.KVDir, options.Memory.KVRAM = t.TempDir(), 1
	small := minimum(t, path, options) + 2<<20
	options.Memory.RAM = small
	e := open(t, path, options)
	s := newSession(t, e)
	for i, ram := range []int64{small, llmrun.NoLimit, small} {
		require.NoError(t, e.SetBudget(ram))
		want := complete(t, plain.GenerateIDs(ctx, ids[i*300:(i+1)*300], o)).IDs
		require.Equal(t, want, complete(t, s.GenerateIDs(ctx, ids[i*300:(i+1)*300], o)).IDs)
		require.Positive(t, e.KVUse().ColdPages)
		frames, ring := e.Memory().Held["kv frames"], int64(1<<20)
		if ram == small {
			require.Less(t, frames, ring)
			require.Positive(t, e.Memory().Held["weight ring"])
		} else {
			require.Greater(t, frames, ring)
			require.Zero(t, e.Memory().Held["weight ring"])
		}
	}
}

func TestInvalidKVOptions(t *testing.T) {
	_, err := llmrun.Open(demoModel, llmrun.Options{Memory: llmrun.MemoryOptions{KVRAM: -1}})
	require.ErrorIs(t, err, llmrun.ErrOptions)
}
