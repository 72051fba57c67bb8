package llmrun_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

var update = flag.Bool("update", false, "write the golden transcripts instead of comparing with them")

const goldenPath = "testdata/golden/transcripts.json"

// transcripts are generations whose text must never change, for any number of threads, any
// chunk size and any version. Each one uses another part of the sampler.
var transcripts = []struct {
	name, prompt string
	options      llmrun.GenerateOptions
}{
	{"greedy", foxPrompt, llmrun.GenerateOptions{}},
	{"temperature", foxPrompt, llmrun.GenerateOptions{Sampling: llmrun.Sampling{Temperature: 0.9, Seed: seed(1)}}},
	{"another seed", foxPrompt, llmrun.GenerateOptions{Sampling: llmrun.Sampling{Temperature: 0.9, Seed: seed(2)}}},
	{"top k and top p", "The king", llmrun.GenerateOptions{Sampling: llmrun.Sampling{Temperature: 1.1, TopK: 30, TopP: 0.9, Seed: seed(3)}}},
	{"min p and typical", "The king", llmrun.GenerateOptions{Sampling: llmrun.Sampling{Temperature: 1.2, MinP: 0.05, TypicalP: 0.95, Seed: seed(4)}}},
	{"penalties", "The king", llmrun.GenerateOptions{Sampling: llmrun.Sampling{
		Temperature: 0.8, RepeatPenalty: 1.1, PresencePenalty: 0.2, FrequencyPenalty: 0.1, RepeatLastN: 32, Seed: seed(5),
	}}},
	{"bias", foxPrompt, llmrun.GenerateOptions{Sampling: llmrun.Sampling{
		Temperature: 0.7, LogitBias: map[int32]float32{898: -100, 443: 2}, Seed: seed(6),
	}}},
	{"stop string", foxPrompt, llmrun.GenerateOptions{Stop: []string{"kitchen"}}},
}

func seed(n uint64) *uint64 { return &n }

// TestGoldenTranscripts generates with different threads and chunk sizes. It must pass with
// all kernels: set LLMRUN_CPU, or build with the tag noasm. LLMRUN_TEST_SWEEP=1 uses more threads and chunk sizes.
func TestGoldenTranscripts(t *testing.T) {
	t.Parallel()
	want := map[string]answer{}
	if !*update {
		testutil.ReadJSON(t, goldenPath, &want)
	}
	choices := []llmrun.Options{{Threads: 2, Memory: llmrun.MemoryOptions{Chunk: 7}}, {Threads: 5, Memory: llmrun.MemoryOptions{Chunk: 16}}, {Threads: 1}, {Threads: 3, Memory: llmrun.MemoryOptions{Chunk: 1}}}
	choices = choices[:testutil.Effort(2, len(choices))]
	switch { // slow without SIMD
	case portable() && testing.Short():
		choices = choices[:1]
	case portable():
		choices = choices[:2]
	}
	for _, o := range choices {
		t.Run(fmt.Sprintf("%d threads, chunk %d", o.Threads, o.Memory.Chunk), func(t *testing.T) {
			e := open(t, demoModel, o)
			for _, c := range transcripts {
				options := c.options
				options.MaxTokens, options.ParseSpecial = 48, true
				got := complete(t, newSession(t, e).Generate(context.Background(), c.prompt, options))
				if *update {
					want[c.name] = got
					continue
				}
				require.Equal(t, want[c.name].Text, got.Text, c.name)
				require.Equal(t, want[c.name].IDs, got.IDs, c.name)
			}
		})
		if *update {
			break
		}
	}
	require.Len(t, want, len(transcripts))
	if *update {
		data, err := json.MarshalIndent(want, "", " ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(goldenPath, append(data, '\n'), 0o600))
	}
}

// TestReportedSeedReproducesText repeats a generation with the seed that it reported.
func TestReportedSeedReproducesText(t *testing.T) {
	e := demo(t)
	o := limit(30)
	o.Sampling.Temperature = 1
	s := newSession(t, e)
	first := complete(t, s.Generate(context.Background(), foxPrompt, o))
	o.Sampling.Seed = seed(s.Stats().Seed)
	again := complete(t, newSession(t, e).Generate(context.Background(), foxPrompt, o))
	require.Equal(t, first, again)
}
