package llmrun_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

// TestSessionsWithOneDocument asks several sessions about one document: its pages are in memory once, also if
// all sessions read it at the same time, and each answer is the one that its session gives alone. In turn, only the first one computes it,
// also where layers have a recurrent state.
func TestSessionsWithOneDocument(t *testing.T) {
	for name, set := range map[string]string{"llama3": "fixtures", "lfm2": "fixtures", "qwen3_5": "fixtures2026"} {
		t.Run(name, func(t *testing.T) { askOneDocument(t, testutil.Shared(t, set, name)) })
	}
}

func askOneDocument(t *testing.T, path string) {
	const sessions = 4
	o := llmrun.Options{Threads: 2, Context: 400, Memory: llmrun.MemoryOptions{KV: "k8v8", Chunk: 48}}
	alone, e := open(t, path, o), open(t, path, o)
	document := someIDs(e, 200)
	question := func(i int) []int32 { return slices.Concat(document, []int32{int32(3 + i), 9}) }
	for round := range 2 { // in turn, and at the same time
		got, all := make([]answer, sessions), make([]*llmrun.Session, sessions)
		var running sync.WaitGroup
		for i := range sessions {
			all[i] = newSession(t, e)
			ask := func() { got[i] = collect(all[i].GenerateIDs(context.Background(), question(i), drawn(5))) }
			if round == 1 {
				running.Go(ask)
				continue
			}
			ask()
			require.Equal(t, min(i, 1)*192, all[i].Stats().ReusedTokens)
		}
		running.Wait()
		for i := range sessions {
			require.NoError(t, got[i].err)
			require.Equal(t, complete(t, newSession(t, alone).GenerateIDs(context.Background(), question(i), drawn(5))).IDs, got[i].IDs)
		}
		require.Equal(t, 3+sessions, e.KVUse().HotPages, "three pages of the document, and one of each answer")
		for i := range sessions {
			require.NoError(t, all[i].Close())
		}
	}
}
