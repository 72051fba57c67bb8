package llmrun_test

import (
	"context"
	"os"
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

// BenchmarkConstrained decodes answers within a schema and free ones in turns, with the model that LLMRUN_BENCH_MODEL names, such as one of
// llmrun synth --shape llama-3.2-1b. Both have the same number of tokens and no guesses but the certain tokens of the schema. It reports passes and tokens per second of both; the
// masks are what a pass within the schema takes more. The first pair of answers is not counted: it makes the vocabulary.
func BenchmarkConstrained(b *testing.B) {
	model := os.Getenv("LLMRUN_BENCH_MODEL")
	if model == "" {
		b.Skip("LLMRUN_BENCH_MODEL names no model")
	}
	const schema = `{"type":"object","properties":{
		"title":{"type":"string","maxLength":80},"year":{"type":"integer","minimum":1900,"maximum":2100},
		"people":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string","minLength":5,"maxLength":40},"role":{"enum":["author","editor","reader"]}},"required":["name","role"]},"minItems":4,"maxItems":20},
		"text":{"type":"string"}},"required":["title","year","people","text"]}`
	e, err := llmrun.Open(model, llmrun.Options{Context: 1024, Drafts: llmrun.DraftOptions{Drafter: llmrun.DraftOff}})
	require.NoError(b, err)
	defer e.Close()
	s := newSession(b, e)
	decode := func(o llmrun.GenerateOptions) (passes, tokens, seconds float64) {
		require.NoError(b, s.Reset())
		for _, err := range s.Generate(context.Background(), foxPrompt, o) {
			require.NoError(b, err)
		}
		stats := s.Stats()
		return float64(stats.Passes), float64(stats.GeneratedTokens - 1), stats.Decode.Seconds()
	}
	var free, held struct{ passes, tokens, seconds float64 }
	for i := range b.N + 1 {
		o := llmrun.GenerateOptions{MaxTokens: 160, Schema: schema, Sampling: llmrun.Sampling{Temperature: 1, Seed: seed(uint64(i))}}
		passes, tokens, seconds := decode(o)
		o.Schema, o.IgnoreEOS, o.MaxTokens = "", true, int(tokens)+1
		freePasses, freeTokens, freeSeconds := decode(o)
		if i > 0 {
			held.passes, held.tokens, held.seconds = held.passes+passes, held.tokens+tokens, held.seconds+seconds
			free.passes, free.tokens, free.seconds = free.passes+freePasses, free.tokens+freeTokens, free.seconds+freeSeconds
		}
	}
	b.ReportMetric(held.tokens/held.seconds, "tok/s-held")
	b.ReportMetric(free.tokens/free.seconds, "tok/s-free")
	b.ReportMetric((held.passes/held.seconds)/(free.passes/free.seconds), "passes/s-held/free")
	b.ReportMetric((held.tokens/held.seconds)/(free.tokens/free.seconds), "tok/s-held/free")
}
