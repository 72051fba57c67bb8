package llmrun_test

import (
	"context"
	"iter"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// BenchmarkSealed compares keys and values on flash with and without encryption: two engines of
// one process decode a token in turn, behind a context of which nearly all is on flash, and
// restore it in turn. It reports medians; plain2 is a second engine without encryption, whose
// distance from plain is that of equal engines. LLMRUN_SEALED_MODEL names a pack instead of the
// bundled model.
func BenchmarkSealed(b *testing.B) {
	model, prompt := demoModel, document(2000)
	if name := os.Getenv("LLMRUN_SEALED_MODEL"); name != "" {
		model = name
	}
	kinds := []string{"plain", "sealed", "plain2"}
	next := map[string]func() (llmrun.Piece, error, bool){}
	options := map[string]llmrun.Options{}
	for _, kind := range kinds {
		o := llmrun.Options{Threads: 2, Drafts: llmrun.DraftOptions{Drafter: llmrun.DraftOff}, Memory: llmrun.MemoryOptions{KVRAM: 1}, Cache: llmrun.CacheOptions{KVDir: b.TempDir()}}
		if kind == "sealed" {
			o.Cache.KeyFile = keyFile(b, 1)
		}
		options[kind] = o
		s := newSession(b, open(b, model, o))
		pull, stop := iter.Pull2(s.GenerateIDs(context.Background(), prompt, llmrun.GenerateOptions{MaxTokens: 1 << 20, IgnoreEOS: true}))
		defer stop()
		next[kind] = pull
		pull() // prefills
	}
	b.Run("decode", func(b *testing.B) {
		compare(b, kinds, func(kind string) {
			_, err, ok := next[kind]()
			require.True(b, ok)
			require.NoError(b, err)
		})
	})
	b.Run("restore", func(b *testing.B) {
		engines := map[string]*llmrun.Engine{}
		for _, kind := range kinds {
			o := options[kind]
			o.Memory.KVRAM = 0
			engines[kind] = open(b, model, o)
		}
		compare(b, kinds, func(kind string) {
			s := newSession(b, engines[kind])
			require.Len(b, ids(b, s, prompt, 1), 1)
			require.Positive(b, s.Stats().RestoredTokens)
			require.NoError(b, s.Close())
		})
	})
}

// compare runs fn for each kind in turn, b.N times, and reports the median of each kind.
func compare(b *testing.B, kinds []string, fn func(kind string)) {
	times := map[string][]time.Duration{}
	for i := range b.N {
		for j := range kinds {
			kind := kinds[(i+j)%len(kinds)]
			start := time.Now()
			fn(kind)
			times[kind] = append(times[kind], time.Since(start))
		}
	}
	for _, kind := range kinds {
		slices.Sort(times[kind])
		b.ReportMetric(float64(times[kind][b.N/2].Microseconds())/1000, "ms-"+kind)
		b.ReportMetric(float64(times[kind][b.N/10].Microseconds())/1000, "ms-p10-"+kind)
	}
}
