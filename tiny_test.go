package llmrun_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

// TestModelWithoutTokenizer generates with token ids.
func TestModelWithoutTokenizer(t *testing.T) {
	dir := tinyModel(t, nil)
	e := open(t, dir, llmrun.Options{})
	ctx := context.Background()
	require.Nil(t, e.Tokenizer())
	require.Empty(t, e.Info().Tokenizer)

	s := newSession(t, e)
	o := limit(10)
	o.IgnoreEOS = true
	a := complete(t, s.GenerateIDs(ctx, []int32{1, 2, 3}, o))
	require.Len(t, a.IDs, 10)
	require.Empty(t, a.Text)
	require.Equal(t, 13, s.Len())
	rest := complete(t, s.GenerateIDs(ctx, nil, o))
	whole := newSession(t, e)
	o.MaxTokens = 20
	require.Equal(t, append(a.IDs, rest.IDs...), complete(t, whole.GenerateIDs(ctx, []int32{1, 2, 3}, o)).IDs)

	s = newSession(t, e)
	for _, err := range []error{
		collect(s.Generate(ctx, "x", o)).err,
		collect(s.Chat(ctx, "x", o)).err,
		second(e.RenderChat(nil, llmrun.ChatOptions{})),
		second(e.EncodeChat(nil, llmrun.ChatOptions{})),
		second(llmrun.OpenTokenizer(dir, llmrun.Options{})),
	} {
		require.ErrorIs(t, err, llmrun.ErrNoTokenizer)
		require.ErrorContains(t, err, dir)
	}
}

func second[T any](_ T, err error) error { return err }

// TestEOSWithoutTokenizer takes the end-of-text token from config.json. A bias makes the
// model generate it at once.
func TestEOSWithoutTokenizer(t *testing.T) {
	s := newSession(t, open(t, tinyModel(t, nil), llmrun.Options{}))
	o := limit(5)
	o.Sampling.LogitBias = map[int32]float32{tinyEOS: 1000}
	a := complete(t, s.GenerateIDs(context.Background(), []int32{1}, o))
	require.Empty(t, a.IDs)
	require.Equal(t, llmrun.StopEOS, s.Stats().StopReason)
}

// TestModelContextLimit uses the model's full context, which Options.Context cannot raise.
func TestModelContextLimit(t *testing.T) {
	e := open(t, tinyModel(t, nil), llmrun.Options{Context: 1000})
	s := newSession(t, e)
	require.Equal(t, tinyContext, s.Limit())
	o := limit(0)
	o.IgnoreEOS = true
	a := complete(t, s.GenerateIDs(context.Background(), []int32{1, 2}, o))
	require.Len(t, a.IDs, tinyContext-2+1)
	require.Equal(t, llmrun.StopContext, s.Stats().StopReason)
	ids := make([]int32, tinyContext+1)
	_, err := e.Logits(context.Background(), ids, nil)
	require.ErrorIs(t, err, llmrun.ErrContextFull)
}

// TestStrictContextIsWithinTheModel refuses a context that is longer than the model's, in the same words for a plan and a
// run: the limit, and what of the file states it.
func TestStrictContextIsWithinTheModel(t *testing.T) {
	dir := tinyModel(t, nil)
	o := llmrun.Options{Context: tinyContext + 1, StrictContext: true, Threads: 1}
	_, opened := llmrun.Open(dir, o)
	require.ErrorIs(t, opened, llmrun.ErrOptions)
	require.ErrorContains(t, opened, fmt.Sprintf("Context is %d tokens, and %s supports at most %d (field max_position_embeddings)", tinyContext+1, dir, tinyContext))
	_, planned := llmrun.PlanMemory(t.Context(), dir, o, llmrun.PlanOptions{RatesDir: t.TempDir()})
	require.EqualError(t, planned, opened.Error())

	config, err := os.ReadFile(filepath.Join(dir, "config.json"))
	require.NoError(t, err)
	scaled := bytes.Replace(config, []byte(`"rope_theta"`), []byte(`"rope_scaling":{"type":"yarn","factor":4,"original_max_position_embeddings":64},"rope_theta"`), 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), scaled, 0o600))
	require.Equal(t, tinyContext+1, newSession(t, open(t, dir, o)).Limit(), "scaling makes room for it")
	o.Context = 4*tinyContext + 1
	_, opened = llmrun.Open(dir, o)
	require.ErrorContains(t, opened, "supports at most 256 (field max_position_embeddings is 64, and yarn scaling of its rotary positions makes it 256)")
}

// TestNonFiniteWeights replaces one weight of the last norm.
func TestNonFiniteWeights(t *testing.T) {
	ctx := context.Background()
	for name, value := range map[string]float32{"NaN": float32(math.NaN()), "Inf": float32(math.Inf(1))} {
		t.Run(name, func(t *testing.T) {
			e := open(t, tinyModel(t, func(tensor string, values []float32) {
				if tensor == "model.norm.weight" {
					values[3] = value
				}
			}), llmrun.Options{})
			s := newSession(t, e)
			for range 2 { // the error repeats, and the session stays usable
				a := collect(s.GenerateIDs(ctx, []int32{1, 2}, limit(5)))
				require.ErrorIs(t, a.err, llmrun.ErrNonFinite)
				require.Empty(t, a.IDs)
				require.Equal(t, llmrun.StopError, s.Stats().StopReason)
				require.Zero(t, s.Len())
			}
			_, err := e.Perplexity(ctx, []int32{1, 2, 3}, llmrun.PerplexityOptions{})
			require.ErrorIs(t, err, llmrun.ErrNonFinite)
		})
	}
}

// TestEveryFamily generates with a model of each family, in chunks and at once.
func TestEveryFamily(t *testing.T) {
	for _, family := range []string{"gemma3", "gpt_neox", "lfm2", "llama3", "phi3_longrope", "qwen3_moe"} {
		t.Run(family, func(t *testing.T) {
			e := open(t, testutil.Shared(t, "fixtures", family), llmrun.Options{Memory: llmrun.MemoryOptions{Chunk: 8}})
			require.Nil(t, e.Tokenizer())
			ids := make([]int32, 40)
			for i := range ids {
				ids[i] = int32(i*37) % int32(e.Info().Vocab)
			}
			o := limit(12)
			o.IgnoreEOS = true
			ctx := context.Background()
			want := complete(t, newSession(t, e).GenerateIDs(ctx, ids, o)).IDs

			// The same sequence in parts, with a reset and an interruption.
			s := newSession(t, e)
			o.MaxTokens = 1
			complete(t, s.GenerateIDs(ctx, ids[:11], o))
			require.NoError(t, s.Reset())
			cut, cancel := context.WithCancel(ctx)
			o.OnPrefill = func(int, int) { cancel() }
			require.ErrorIs(t, collect(s.GenerateIDs(cut, ids, o)).err, context.Canceled)
			o.OnPrefill = nil
			got := complete(t, s.GenerateIDs(ctx, ids, o)).IDs
			o.MaxTokens = 11
			got = append(got, complete(t, s.GenerateIDs(ctx, nil, o)).IDs...)
			require.Equal(t, want, got)
		})
	}
}
