package llmrun_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// BenchmarkDecode measures decode including the library's work around the forward pass.
func BenchmarkDecode(b *testing.B) {
	s := newSession(b, demo(b))
	o := limit(0)
	o.IgnoreEOS = true
	o.Sampling = llmrun.Sampling{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, Seed: seed(1)}
	b.ReportAllocs()
	// Reset the session before attention costs more than the weights.
	for done := 0; done < b.N; {
		o.MaxTokens = min(b.N-done, 200)
		require.NoError(b, s.Reset())
		for _, err := range s.Generate(context.Background(), foxPrompt, o) {
			require.NoError(b, err)
			done++
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tok/s")
}

// BenchmarkPrefill prefills 512 tokens.
func BenchmarkPrefill(b *testing.B) {
	ids := demoReference(b).LongContext[0].Prompt[:512]
	s := newSession(b, demo(b))
	for b.Loop() {
		require.NoError(b, s.Reset())
		complete(b, s.GenerateIDs(context.Background(), ids, limit(1)))
	}
	b.ReportMetric(float64(b.N*len(ids))/b.Elapsed().Seconds(), "tok/s")
}

func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		e, err := llmrun.Open(demoModel, llmrun.Options{})
		require.NoError(b, err)
		require.NoError(b, e.Close())
	}
}
