package llmrun_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

// batchModels are the models of TestTextsInBatches: full and windowed attention, experts, two ropes, short convolutions, recurrent state,
// and one with a tokenizer, for stop strings.
var batchModels = []func(t *testing.T) string{
	func(t *testing.T) string { return stressModel(t, stressKinds[0]) },
	func(t *testing.T) string { return stressModel(t, stressKinds[1]) },
	func(t *testing.T) string { return stressModel(t, stressKinds[2]) },
	func(t *testing.T) string { return stressModel(t, stressKinds[3]) },
	func(t *testing.T) string { return fixtureIfThere(t, "fixtures", "lfm2") },
	func(t *testing.T) string { return fixtureIfThere(t, "fixtures2026", "qwen3_5") },
	func(*testing.T) string { return demoModel },
}

// fixtureIfThere returns the path of a fixture, "" where there is none.
func fixtureIfThere(t *testing.T, set, name string) string {
	path, found := testutil.Find(t, set, name)
	if !found {
		return ""
	}
	return path
}

const (
	batchContext = 384
	batchPrompt  = 100 // most tokens of a question
	batchAnswer  = 16
)

// batched is one text of a batch.
type batched struct {
	ids     []int32 // of the prompt, behind those of a session that is forked
	fork    bool
	options llmrun.GenerateOptions
	cancel  int // the text is left after so many tokens, by the loop or the context; 0: it is not
	breaks  bool
}

// wrote is what a generation gave.
type wrote struct {
	pieces []llmrun.Piece
	stop   llmrun.StopReason
	err    error
}

// TestTextsInBatches generates 2 to 16 texts with random options at a time: prompts of their own and forks of one document, which begin
// when others end and are left in the middle, in budgets with weights, keys and values on flash. Each has the tokens, pieces and
// probabilities that it has alone, in an engine without a limit.
func TestTextsInBatches(t *testing.T) {
	skipLongTexts(t)
	var seeds []uint64
	for i := range uint64(len(batchModels)) {
		seeds = append(seeds, i)
	}
	paths := map[int]string{}
	all := batchTally{}
	complete := testutil.EachSeed(t, seeds, 300, func(sub *testing.T, seed uint64, notes *testutil.Notes) {
		kind := int(seed % uint64(len(batchModels)))
		if paths[kind] == "" {
			paths[kind] = batchModels[kind](t)
		}
		if paths[kind] == "" {
			sub.Skip("the fixture of this model is not here")
		}
		b := &batchRun{t: sub, rng: rand.New(rand.NewPCG(seed, 9)), path: paths[kind], notes: notes}
		b.run()
		all.add(&b.tally)
	})
	t.Logf("%+v", all)
	if complete {
		require.Positive(t, all.Complete)
		require.Positive(t, all.Left)
		require.Positive(t, all.Cold, "pages were on flash")
		require.Positive(t, all.Streamed, "weights were on flash")
		require.Greater(t, all.Tokens, all.Passes, "texts shared passes")
	}
}

// batchTally counts what the seeds covered.
type batchTally struct{ Complete, Left, Refused, Cold, Streamed, Tokens, Passes int }

func (a *batchTally) add(b *batchTally) {
	a.Complete, a.Left, a.Refused = a.Complete+b.Complete, a.Left+b.Left, a.Refused+b.Refused
	a.Cold, a.Streamed = a.Cold+b.Cold, a.Streamed+b.Streamed
	a.Tokens, a.Passes = a.Tokens+b.Tokens, a.Passes+b.Passes
}

// batchRun is one seed of TestTextsInBatches.
type batchRun struct {
	t        *testing.T
	rng      *rand.Rand
	path     string
	vocab    int
	document []int32
	tally    batchTally
	notes    *testutil.Notes
}

func (b *batchRun) run() {
	t, rng := b.t, b.rng
	o := llmrun.Options{Threads: 1 + rng.IntN(2), Context: batchContext, Cache: llmrun.CacheOptions{KVDir: t.TempDir(), NoKV: rng.IntN(4) == 0}}
	o.Memory.KV, o.Memory.RAM = []string{"f32", "k8v8"}[rng.IntN(2)], llmrun.NoLimit
	alone := open(t, b.path, o)
	b.vocab = alone.Info().Vocab
	b.document = b.prompt(1 + rng.IntN(batchPrompt))
	texts := make([]batched, 2+rng.IntN(15))
	want := make([]wrote, len(texts))
	for i := range texts {
		texts[i] = b.text()
		want[i] = b.generate(newSession(t, alone), b.whole(&texts[i]), &texts[i], false)
		require.NoError(t, want[i].err)
	}

	o.Memory.Chunk = 16 << rng.IntN(3)
	if !o.Cache.NoKV && rng.IntN(3) > 0 {
		o.Memory.KVRAM = 1 + rng.Int64N(256<<10)
	}
	if rng.IntN(4) > 0 {
		o.Memory.RAM = minimum(t, b.path, o) + rng.Int64N(1<<20)
	}
	e := open(t, b.path, o)
	origin := newSession(t, e)
	complete(t, origin.GenerateIDs(context.Background(), b.document, llmrun.GenerateOptions{MaxTokens: 1, IgnoreEOS: true, Sampling: llmrun.Sampling{LogitBias: map[int32]float32{b.document[0]: 1000}}}))
	workers := 2 + rng.IntN(15)
	b.notes.Note("%d texts, %d at a time, chunk %d, budget %d, of keys and values %d, %d threads, keys in %s",
		len(texts), workers, o.Memory.Chunk, o.Memory.RAM, o.Memory.KVRAM, o.Threads, o.Memory.KV)
	got := b.together(e, origin, texts, workers)
	for i := range texts {
		b.compare(i, &texts[i], &want[i], &got[i])
	}
	use := e.PassUse()
	b.tally.Tokens, b.tally.Passes = int(use.Tokens), int(use.Passes)
	if plan := e.Memory().Plan; !plan.Resident() {
		b.tally.Streamed++
	}
}

// together generates all texts, some at a time.
func (b *batchRun) together(e *llmrun.Engine, origin *llmrun.Session, texts []batched, workers int) []wrote {
	got, sessions := make([]wrote, len(texts)), make([]*llmrun.Session, len(texts))
	next := make(chan int, len(texts))
	for i := range texts {
		var err error
		if sessions[i], err = e.NewSession(); texts[i].fork {
			require.NoError(b.t, sessions[i].Close())
			sessions[i], err = origin.Fork()
		}
		require.NoError(b.t, err)
		next <- i
	}
	close(next)
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for i := range next {
				got[i] = b.generate(sessions[i], texts[i].ids, &texts[i], true)
			}
		})
	}
	running.Wait()
	b.tally.Cold += e.KVUse().ColdPages
	for _, s := range sessions {
		require.NoError(b.t, s.Close())
	}
	return got
}

// whole returns the tokens of a text's prompt.
func (b *batchRun) whole(x *batched) []int32 {
	if x.fork {
		return slices.Concat(b.document, b.document[:1], x.ids)
	}
	return x.ids
}

func (b *batchRun) prompt(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = b.rng.Int32N(int32(b.vocab))
	}
	return ids
}

// text returns a random text.
func (b *batchRun) text() batched {
	rng := b.rng
	x := batched{fork: rng.IntN(3) == 0, ids: b.prompt(1 + rng.IntN(1<<(1+rng.IntN(6)))), breaks: rng.IntN(2) == 0}
	if rng.IntN(4) == 0 {
		x.cancel = 1 + rng.IntN(6)
	}
	if !x.fork && rng.IntN(3) == 0 { // a prompt that begins as the document does
		x.ids = slices.Concat(b.document, x.ids)
	}
	seed := rng.Uint64()
	o := llmrun.GenerateOptions{MaxTokens: 1 + rng.IntN(batchAnswer), IgnoreEOS: rng.IntN(2) == 0, LogProbs: true, TopLogProbs: rng.IntN(3)}
	o.Sampling = llmrun.Sampling{Temperature: []float32{0, 0.8, 1.3}[rng.IntN(3)], Seed: &seed}
	if rng.IntN(2) == 0 {
		o.Sampling.RepeatPenalty, o.Sampling.PresencePenalty, o.Sampling.FrequencyPenalty = 1+rng.Float32(), rng.Float32(), rng.Float32()
		o.Sampling.RepeatLastN = []int{0, -1, 5}[rng.IntN(3)]
	}
	if rng.IntN(3) == 0 {
		o.Sampling.TopK, o.Sampling.TopP, o.Sampling.MinP = 1+rng.IntN(40), 0.5+rng.Float32()/2, 0.1*rng.Float32()
	}
	if rng.IntN(3) == 0 {
		o.Sampling.LogitBias = map[int32]float32{rng.Int32N(int32(b.vocab)): 3, rng.Int32N(int32(b.vocab)): -3}
	}
	for range rng.IntN(4) {
		o.Stop = append(o.Stop, []string{"e", " the", "on", "ing ", ".", "q"}[rng.IntN(6)])
	}
	x.options = o
	b.notes.Note("%d tokens, fork %v, left after %d (break %v), at most %d, stops %q, %+v, seed %d",
		len(x.ids), x.fork, x.cancel, x.breaks, o.MaxTokens, o.Stop, o.Sampling, seed)
	return x
}

// generate generates a text; with leaves set, only until it is left.
func (b *batchRun) generate(s *llmrun.Session, prompt []int32, x *batched, leaves bool) (w wrote) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tokens := 0
	for p, err := range s.GenerateIDs(ctx, prompt, x.options) {
		if err != nil {
			w.err = err
			break
		}
		w.pieces = append(w.pieces, p)
		if p.ID >= 0 {
			tokens++
		}
		if leaves && tokens == x.cancel {
			if x.breaks {
				break
			}
			cancel()
		}
	}
	w.stop = s.Stats().StopReason
	return w
}

// compare compares a text with the one that it is alone. One that was left, or for which the budget had no room, is its beginning.
func (b *batchRun) compare(i int, x *batched, want, got *wrote) {
	t := b.t
	switch {
	case got.err == nil && got.stop != llmrun.StopCancelled:
		require.Equal(t, want.pieces, got.pieces, "text %d", i)
		require.Equal(t, want.stop, got.stop, "text %d", i)
		b.tally.Complete++
		return
	case errors.Is(got.err, llmrun.ErrBudget):
		b.tally.Refused++
	default:
		require.Positive(t, x.cancel, "text %d ended early: %v", i, got.err)
		if got.err != nil {
			require.ErrorIs(t, got.err, context.Canceled, "text %d", i)
		}
		b.tally.Left++
	}
	n := len(got.pieces)
	for n > 0 && got.pieces[n-1].ID < 0 { // what was held back when the text was left
		n--
	}
	require.LessOrEqual(t, n, len(want.pieces), "text %d", i)
	for j, p := range got.pieces[:n] {
		require.Equal(t, want.pieces[j], p, "text %d, piece %d", i, j)
	}
}
