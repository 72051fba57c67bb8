package llmrun_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// TestDemoAnswersWithContextOnFlash asks for facts in long texts with nine tenths of the keys
// and values on flash.
func TestDemoAnswersWithContextOnFlash(t *testing.T) {
	for i, c := range demoReference(t).LongContext {
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
			require.Equal(t, int64(use.ColdPages*use.PageBytes), use.Written, "each byte is written once")
			names, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.LessOrEqual(t, len(names), 1)
		})
	}
}

// TestConversationLongerThanMemory runs a session whose keys and values exceed the budget,
// while weights are streamed too. The tokens do not change, the peak stays within the budget,
// and Trim moves more pages to flash.
func TestConversationLongerThanMemory(t *testing.T) {
	ctx := context.Background()
	path := wide(t)
	options := llmrun.Options{Threads: 2, Context: 4096, Memory: llmrun.MemoryOptions{Chunk: 64, RAM: llmrun.NoLimit}}
	whole := open(t, path, options)
	tokens, budgets := 1800, []int64{0, 2 << 20, 12 << 20} // bytes above the minimum
	if portable() {
		tokens, budgets = 320, budgets[:1]
	}
	ids := someIDs(whole, tokens)
	o := limit(40)
	o.IgnoreEOS = true
	want := complete(t, newSession(t, whole).GenerateIDs(ctx, ids, o)).IDs

	warm := minimum(t, path, options)
	options.Cache.KVDir = t.TempDir()
	least := minimum(t, path, options)
	require.Less(t, least, warm)
	for _, more := range budgets {
		options.Memory.RAM = least + more
		e := open(t, path, options)
		s := newSession(t, e)
		require.Equal(t, want, complete(t, s.GenerateIDs(ctx, ids, o)).IDs)
		var peak int64
		for _, n := range e.Memory().Peak {
			peak += n
		}
		require.LessOrEqual(t, peak, options.Memory.RAM)
		before := e.KVUse()
		if more == 0 {
			require.Positive(t, before.ColdPages)
		}
		require.NoError(t, e.Trim(llmrun.TrimCritical))
		require.LessOrEqual(t, e.KVUse().HotPages, before.HotPages)
		o := limit(5)
		o.IgnoreEOS = true
		one := complete(t, s.GenerateIDs(ctx, ids[:100], o)).IDs
		require.NoError(t, e.SetBudget(llmrun.NoLimit))
		require.NoError(t, s.Reset())
		all := append(append(append([]int32{}, ids...), want...), ids[:100]...)
		require.Equal(t, one, complete(t, s.GenerateIDs(ctx, all, o)).IDs)
	}
}

func TestInvalidKVOptions(t *testing.T) {
	_, err := llmrun.Open(demoModel, llmrun.Options{Memory: llmrun.MemoryOptions{KVRAM: -1}})
	require.ErrorIs(t, err, llmrun.ErrOptions)
}
