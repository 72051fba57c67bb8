package llmrun_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

// drafting returns options with a drafter.
func drafting(o llmrun.Options, drafter string, most int) llmrun.Options {
	o.Drafts = llmrun.DraftOptions{Drafter: drafter, Max: most}
	return o
}

// repeating returns ids that repeat themselves, with variations.
func repeating(r *rand.Rand, vocabulary, n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(i%11*37+5) % int32(vocabulary)
		if r.IntN(15) == 0 {
			ids[i] = r.Int32N(int32(vocabulary))
		}
	}
	return ids
}

// talk generates three times in one session, with random options that r decides, and leaves the second
// answer in the middle. It returns all tokens and the guesses that were accepted.
func talk(t *testing.T, e *llmrun.Engine, r *rand.Rand) (ids []int32, accepted int) {
	ctx := context.Background()
	s := newSession(t, e)
	for turn := range 3 {
		seed := r.Uint64()
		o := llmrun.GenerateOptions{MaxTokens: 8 + r.IntN(100), IgnoreEOS: r.IntN(2) == 0}
		o.Sampling.Seed = &seed
		if r.IntN(2) == 0 {
			o.Sampling.Temperature = 0.8
			o.Sampling.TopK = 1 + r.IntN(20)
		}
		if r.IntN(3) == 0 {
			o.Sampling.RepeatPenalty, o.Sampling.RepeatLastN = 1.1, 1+r.IntN(30)
		}
		if r.IntN(2) == 0 { // a text of a few tokens repeats itself
			o.Sampling.LogitBias = map[int32]float32{1: 30, 7: 30, 9: 30}
		}
		if r.IntN(2) == 0 {
			o.Overflow = llmrun.OverflowSlide
		}
		prompt, leave := repeating(r, e.Info().Vocab, 1+r.IntN(60)), 1+r.IntN(60)
		for p, err := range s.GenerateIDs(ctx, prompt, o) {
			if err != nil {
				ids = append(ids, -1) // the context is full
				break
			}
			ids = append(ids, p.ID)
			if leave--; turn == 1 && leave == 0 {
				break
			}
		}
		ids = append(ids, int32(s.Len()))
		for _, use := range s.Stats().Drafters {
			accepted += use.Accepted
			require.LessOrEqual(t, use.Accepted, use.Proposed)
		}
	}
	return ids, accepted
}

// TestDraftsDoNotChangeAnswers compares conversations with and without guesses: greedy and sampled, with
// penalties, slides and interruptions, with weights and KV in memory and on flash, for families with
// windows, short convolutions, experts and rotary frequencies of long sequences.
func TestDraftsDoNotChangeAnswers(t *testing.T) {
	t.Parallel()
	families := map[string]llmrun.Options{
		"llama3": {}, "gemma3": {}, "gpt_neox": {}, "lfm2": {}, "phi3_longrope": {}, "qwen3_moe": {},
	}
	for family := range families {
		t.Run(family, func(t *testing.T) {
			path := testutil.Shared(t, "fixtures", family)
			accepted := 0
			for run := range testutil.Effort(3, 12) {
				r := rand.New(rand.NewPCG(uint64(run), 9))
				o := draftOptions(t, r)
				seed := r.Uint64()
				plain, none := talk(t, open(t, path, drafting(o, llmrun.DraftOff, 0)), rand.New(rand.NewPCG(seed, 1)))
				require.Zero(t, none)
				for _, drafter := range []string{llmrun.DraftLookup, llmrun.DraftAuto} {
					if o.Cache.KVDir != "" {
						o.Cache.KVDir = t.TempDir()
					}
					got, n := talk(t, open(t, path, drafting(o, drafter, 1+r.IntN(20))), rand.New(rand.NewPCG(seed, 1)))
					require.Equal(t, plain, got, "run %d, %s", run, drafter)
					accepted += n
				}
			}
			require.Positive(t, accepted)
		})
	}
}

// TestDraftsInSharedPasses compares conversations that share passes, each with guesses of its own, with the
// same conversations without guesses, one after another.
func TestDraftsInSharedPasses(t *testing.T) {
	const sessions = 4
	for _, family := range []string{"llama3", "gemma3", "lfm2", "qwen3_moe"} {
		t.Run(family, func(t *testing.T) {
			path := testutil.Shared(t, "fixtures", family)
			for run := range testutil.Effort(1, 12) {
				o := llmrun.Options{Context: 400, Memory: llmrun.MemoryOptions{Chunk: 24}}
				if run%2 == 0 {
					o.Memory.KV, o.Memory.KVRAM = "k8v8", 1
					o.Cache = llmrun.CacheOptions{KVDir: t.TempDir(), NoKV: true}
				}
				random := func(i int) *rand.Rand { return rand.New(rand.NewPCG(uint64(run), uint64(i))) }
				e := open(t, path, drafting(o, llmrun.DraftLookup, 12))
				var got [sessions][]int32
				var accepted [sessions]int
				var running sync.WaitGroup
				for i := range sessions {
					running.Go(func() { got[i], accepted[i] = talk(t, e, random(i)) })
				}
				running.Wait()
				require.Positive(t, accepted[0]+accepted[1]+accepted[2]+accepted[3])
				require.Less(t, e.PassUse().Passes, e.PassUse().Tokens)
				plain := open(t, path, drafting(o, llmrun.DraftOff, 0))
				for i := range sessions {
					want, _ := talk(t, plain, random(i))
					require.Equal(t, want, got[i], "run %d, session %d", run, i)
				}
			}
		})
	}
}

// TestLookupOfANote summarizes a note: most of the summary stands in the note.
func TestLookupOfANote(t *testing.T) {
	note, err := os.ReadFile(testutil.Shared(t, "demo", "notes") + "/note-01.md")
	require.NoError(t, err)
	message := []llmrun.Message{{Role: "user", Content: strings.TrimSuffix(string(note), "\n") + "\n\nSummarize the note."}}
	texts := map[string]string{}
	for _, drafter := range []string{llmrun.DraftOff, llmrun.DraftLookup} {
		e := open(t, demoModel, drafting(llmrun.Options{Threads: 2}, drafter, 0))
		s := newSession(t, e)
		texts[drafter] = complete(t, s.ChatMessages(context.Background(), message, limit(200))).Text
		stats := s.Stats()
		if drafter == llmrun.DraftOff {
			require.Equal(t, stats.GeneratedTokens, stats.Passes, "the pass that gives the end-of-text token counts, and the first token comes from the prompt's")
			require.Empty(t, stats.Drafters)
			continue
		}
		require.Greater(t, stats.TokensPerPass(), 2.0)
		require.Equal(t, stats.GeneratedTokens, stats.Passes+stats.Drafters[0].Accepted)
	}
	require.Equal(t, texts[llmrun.DraftOff], texts[llmrun.DraftLookup])
}

// TestRejectedGuessesAreNotKept saves a conversation whose guesses were often wrong, and continues the saved
// one: it must give what a conversation without guesses gives.
func TestRejectedGuessesAreNotKept(t *testing.T) {
	ctx := context.Background()
	var first, next []answer
	for _, drafter := range []string{llmrun.DraftOff, llmrun.DraftLookup} {
		dir := t.TempDir()
		o := drafting(llmrun.Options{Threads: 2, Cache: llmrun.CacheOptions{KVDir: dir}}, drafter, 20)
		prompt := strings.Repeat("The fox ran to the river. The fox sat by the tree. ", 30)
		e := open(t, demoModel, o)
		s, err := e.OpenSession("kept", llmrun.SessionOptions{})
		require.NoError(t, err)
		first = append(first, complete(t, s.Generate(ctx, prompt, limit(70))))
		require.NoError(t, s.Save("kept"))
		require.NoError(t, s.Close())

		s, err = open(t, demoModel, o).OpenSession("kept", llmrun.SessionOptions{})
		require.NoError(t, err)
		next = append(next, complete(t, s.Generate(ctx, " The fox", limit(40))))
		require.Greater(t, s.Stats().RestoredTokens, 300)
		require.NoError(t, s.Close())
	}
	require.Equal(t, first[0], first[1])
	require.Equal(t, next[0], next[1])
}

func TestInvalidDrafts(t *testing.T) {
	t.Parallel()
	for _, o := range []llmrun.DraftOptions{{Drafter: "guess"}, {Max: -1}, {Max: 257}} {
		_, err := llmrun.Open(demoModel, llmrun.Options{Drafts: o})
		require.ErrorIs(t, err, llmrun.ErrOptions, fmt.Sprint(o))
	}
	_, err := llmrun.Open(demoModel, llmrun.Options{Drafts: llmrun.DraftOptions{Drafter: llmrun.DraftLookup}, Device: llmrun.DeviceOptions{Name: "gpu"}})
	require.ErrorIs(t, err, llmrun.ErrOptions, "a device makes no guesses")
	require.ErrorContains(t, err, "Drafts.Drafter lookup")
	open(t, tinyModel(t, nil), llmrun.Options{Drafts: llmrun.DraftOptions{Drafter: llmrun.DraftOff}, Device: llmrun.DeviceOptions{Name: "cpu+cpu/2"}})
}

// TestGuessesNeedNoMemory lets sessions fill the memory for keys and values before another generates with
// guesses, which reach into the next page: the answer ends only where there is no memory for the next token.
func TestGuessesNeedNoMemory(t *testing.T) {
	path := longTextModel(t)
	o := drafting(llmrun.Options{Threads: 1, Context: 448, Memory: llmrun.MemoryOptions{Chunk: 32, KV: "f32"}}, llmrun.DraftLookup, 0)
	o.Memory.RAM = minimum(t, path, o)
	e := open(t, path, o)
	s := newSession(t, e)
	generate := limit(400)
	generate.IgnoreEOS = true
	generate.Sampling.LogitBias = map[int32]float32{1: 30, 7: 30, 9: 30}
	first := complete(t, s.GenerateIDs(t.Context(), repeating(rand.New(rand.NewPCG(1, 2)), e.Info().Vocab, 30), limit(1)))
	fillMemory(t, e)
	a := collect(s.GenerateIDs(t.Context(), first.IDs, generate))
	require.ErrorIs(t, a.err, llmrun.ErrBudget)
	require.Positive(t, s.Stats().Drafters[0].Accepted)
	require.ErrorIs(t, collect(s.GenerateIDs(t.Context(), []int32{1}, limit(1))).err, llmrun.ErrBudget, "there was memory for a token")
}

// fillMemory lets sessions of 100 tokens fill the memory for keys and values, and frees that of one or two.
func fillMemory(t *testing.T, e *llmrun.Engine) {
	ids := someIDs(e, 1000) // each session has other ones, because those with the same share pages
	for previous := newSession(t, e); ; ids = ids[1:] {
		s := newSession(t, e)
		if a := collect(s.GenerateIDs(t.Context(), ids[:100], limit(1))); a.err != nil {
			require.ErrorIs(t, a.err, llmrun.ErrBudget)
			require.NoError(t, s.Close())
			require.NoError(t, previous.Close())
			return
		}
		previous = s
	}
}

// draftOptions returns random options: every other run keeps most keys and values on flash.
func draftOptions(t *testing.T, r *rand.Rand) llmrun.Options {
	o := llmrun.Options{Context: 96 + r.IntN(400), Memory: llmrun.MemoryOptions{Chunk: 8 + r.IntN(32)}}
	if r.IntN(2) == 0 {
		o.Memory.KV, o.Memory.KVRAM = "k8v8", 1
		o.Cache = llmrun.CacheOptions{KVDir: t.TempDir(), NoKV: r.IntN(2) == 0}
	}
	return o
}
