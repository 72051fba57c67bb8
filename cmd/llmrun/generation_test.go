package main

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

// parseGeneration returns the generation flags that args set.
func parseGeneration(t *testing.T, args ...string) (*generationFlags, error) {
	t.Helper()
	var g generationFlags
	f := cli.NewFlagSet()
	g.add(f)
	_, err := f.Parse(args)
	return &g, err
}

// TestSamplingFlagsOverrideModelDefaults checks that flags override the sampling defaults of
// the model, and that other defaults stay.
func TestSamplingFlagsOverrideModelDefaults(t *testing.T) {
	defaults := llmrun.Sampling{Temperature: 0.7, TopP: 0.9, RepeatPenalty: 1.05}
	tests := []struct {
		name string
		args []string
		want llmrun.Sampling // without the seed
	}{
		{"defaults", nil, defaults},
		{"one flag", []string{"--top-k", "5"}, llmrun.Sampling{Temperature: 0.7, TopP: 0.9, RepeatPenalty: 1.05, TopK: 5}},
		{"another temperature", []string{"--temp", "1.5"}, llmrun.Sampling{Temperature: 1.5, TopP: 0.9, RepeatPenalty: 1.05}},
		{"greedy drops the model's penalty", []string{"--temp", "0"}, llmrun.Sampling{}},
		{"greedy keeps a penalty that was given", []string{"--temp", "0", "--repeat-penalty", "1.2"}, llmrun.Sampling{RepeatPenalty: 1.2}},
		{
			"bias",
			[]string{"--logit-bias", "7=-1.5", "--logit-bias", "8=-Inf"},
			llmrun.Sampling{Temperature: 0.7, TopP: 0.9, RepeatPenalty: 1.05, LogitBias: map[int32]float32{7: -1.5, 8: float32(math.Inf(-1))}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g, err := parseGeneration(t, test.args...)
			require.NoError(t, err)
			got := g.sampling(defaults)
			require.Equal(t, got.Temperature > 0, got.Seed != nil, "only sampling has a seed")
			got.Seed = nil
			require.Equal(t, test.want, got)
		})
	}
}

// TestSeed checks that --seed takes any uint64 and nothing else.
func TestSeed(t *testing.T) {
	g, err := parseGeneration(t, "--seed", "18446744073709551615")
	require.NoError(t, err)
	require.Equal(t, ^uint64(0), *g.sampling(llmrun.Sampling{Temperature: 1}).Seed)

	for _, bad := range []string{"-1", "1.5", "18446744073709551616", ""} {
		_, err := parseGeneration(t, "--seed", bad)
		require.ErrorContains(t, err, "--seed: must be a whole number")
	}
}

// TestLogitBiasRefuses checks that --logit-bias rejects invalid ids and numbers.
func TestLogitBiasRefuses(t *testing.T) {
	for _, bad := range []string{"", "7", "7=", "=1", "-1=1", "x=1", "7=NaN", "7=Inf", "3000000000=1"} {
		_, err := parseGeneration(t, "--logit-bias", bad)
		require.ErrorContains(t, err, "--logit-bias: must be a token id and a number", "%q", bad)
	}
}

// TestCollectStopsWhenTheOutputFails checks that collect returns a write error and stops
// generation.
func TestCollectStopsWhenTheOutputFails(t *testing.T) {
	full := errors.New("disk full")
	produced := 0
	pieces := func(yield func(llmrun.Piece, error) bool) {
		for produced < 10 {
			produced++
			if !yield(llmrun.Piece{ID: int32(produced), Text: "x"}, nil) {
				return
			}
		}
	}
	var got answer
	err := got.collect(pieces, func(*llmrun.Piece) error {
		if produced == 3 {
			return full
		}
		return nil
	})
	require.ErrorIs(t, err, full)
	require.Equal(t, 3, produced)
	require.Equal(t, "xxx", got.Text())
}

// TestAsidesAreNotTheAnswer collects an answer with a thought and two calls.
func TestAsidesAreNotTheAnswer(t *testing.T) {
	pieces := func(list ...llmrun.Piece) func(func(llmrun.Piece, error) bool) {
		return func(yield func(llmrun.Piece, error) bool) {
			for _, p := range list {
				if !yield(p, nil) {
					return
				}
			}
		}
	}
	var got answer
	shown, notes := "", 0
	collect := func(list ...llmrun.Piece) {
		require.NoError(t, got.collect(pieces(list...), func(p *llmrun.Piece) error { shown += p.Text; return nil }))
	}
	collect(llmrun.Piece{Text: "hm", Kind: llmrun.KindThinking}, llmrun.Piece{Text: "m", Kind: llmrun.KindThinking})
	got.explainEmpty(func(string) { notes++ })
	require.Equal(t, 1, notes)
	a, b := &llmrun.ToolCall{ID: "1", Name: "a"}, &llmrun.ToolCall{ID: "2", Name: "b"}
	collect(
		llmrun.Piece{Text: "{", Kind: llmrun.KindToolCall, Call: a},
		llmrun.Piece{Text: "}", Kind: llmrun.KindToolCall, CallEnds: true},
		llmrun.Piece{Text: "1", Kind: llmrun.KindToolCall, Call: b},
		llmrun.Piece{Text: "yes"},
	)
	got.explainEmpty(func(string) { notes++ })
	require.Equal(t, 1, notes)
	require.Equal(t, "hmm{}1yes", shown)
	require.Equal(t, "yes", got.Text())
	report := newRunReport(&got, llmrun.Stats{}, nil)
	require.Equal(t, "hmm", report.Thinking)
	require.Equal(t, []llmrun.ToolCall{{ID: "1", Name: "a", Arguments: "{}"}, {ID: "2", Name: "b", Arguments: "1"}}, report.ToolCalls)
}

// TestStatsLine checks the line that summarizes a run.
func TestStatsLine(t *testing.T) {
	seed := uint64(7)
	stats := llmrun.Stats{
		PromptTokens: 21, ReusedTokens: 1, GeneratedTokens: 11, StopReason: "eos",
		Prefill: 10 * time.Millisecond, FirstToken: 12 * time.Millisecond, Decode: 50 * time.Millisecond,
	}
	require.Equal(t, "prompt 21 tokens (1 reused), 2000 tok/s; first token after 12ms; answer 11 tokens, 200.0 tok/s; the model ended it; seed 7",
		formatStats(stats, &seed))
	stats.RestoredTokens, stats.Slides, stats.ForgottenTokens = 1, 2, 30
	require.Contains(t, formatStats(stats, &seed), "(1 reused, 1 of them from flash)")
	require.Contains(t, formatStats(stats, &seed), "; 30 tokens forgotten in 2 slides; seed 7")
	require.Equal(t, "prompt 9975 tokens; no answer; interrupted",
		formatStats(llmrun.Stats{PromptTokens: 9975, StopReason: "cancelled"}, &seed))
}

// TestThoughtsArePrintedApart prints an answer with thoughts on a terminal, on a pipe, and on a pipe that shall have them.
func TestThoughtsArePrintedApart(t *testing.T) {
	for _, c := range []struct {
		terminal, show bool
		want           string
	}{
		{true, false, "\x1b[2mhm, yes\n\x1b[0m\nNo ␛"},
		{false, false, "No \x1b"},
		{false, true, "hm, yes\n\nNo \x1b"},
	} {
		name := filepath.Join(t.TempDir(), "out")
		out, err := os.Create(name)
		require.NoError(t, err)
		stdout := os.Stdout
		os.Stdout = out
		s := cli.SystemStreams()
		os.Stdout, s.Out.Terminal = stdout, c.terminal
		p := (&thinkingFlags{show: c.show}).printer(s)
		for _, piece := range []llmrun.Piece{
			{Text: "\n", Kind: llmrun.KindThinking},
			{Text: "\nhm,", Kind: llmrun.KindThinking},
			{Text: " yes", Kind: llmrun.KindThinking},
			{Text: "{}", Kind: llmrun.KindToolCall},
			{Text: "No"},
			{Text: " \x1b"},
		} {
			p.print(&piece)
		}
		p.endThinking()
		require.NoError(t, out.Close())
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, c.want, string(got))
	}
}
