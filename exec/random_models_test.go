package exec

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// randomModels runs a test for models of random shapes, with brief seeds from the first on; see [testutil.EachSeed].
// context, if not 0, is that of the models.
func randomModels(t *testing.T, first uint64, brief, context int, test func(t *testing.T, rng *rand.Rand, m *modeltest.RandomModel)) {
	t.Helper()
	seeds := make([]uint64, brief)
	for i := range seeds {
		seeds[i] = first + uint64(i)
	}
	testutil.EachSeed(t, seeds, 60, func(t *testing.T, seed uint64, notes *testutil.Notes) {
		rng := rand.New(rand.NewPCG(seed, 77))
		m := modeltest.NewRandomModel(t, rng, context)
		notes.Note("%s", m)
		test(t, rng, m)
	})
}

func oneOf[T any](rng *rand.Rand, choices ...T) T { return choices[rng.IntN(len(choices))] }

// openRandom opens a model, quantized to a mix unless that is "".
func openRandom(t *testing.T, m *modeltest.RandomModel, mix string) *modelfile.Files {
	t.Helper()
	f, err := modelfile.Open(m.FS, "m")
	require.NoError(t, err)
	if mix != "" {
		require.NoError(t, f.Quantize(mix, nil))
	}
	return f
}

// loadRandom loads all weights of a model.
func loadRandom(t *testing.T, m *modeltest.RandomModel, mix string, o Options) *Model {
	t.Helper()
	if o.Budget == nil {
		o.Budget = tiering.New(0)
	}
	f := openRandom(t, m, mix)
	model, err := Load(context.Background(), f, o)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	t.Cleanup(func() {
		model.Close()
		require.NoError(t, o.Budget.Check())
	})
	return model
}

// spilling returns options with which all full pages but the last move to flash.
func spilling(format kv.Format, chunk int) Options {
	budget := tiering.New(0)
	return Options{KV: format, Threads: 2, Chunk: chunk, Budget: budget, KVPage: kv.BlockTokens, KVRing: 1 << 14, KVHot: 1, KVSpill: kv.NewScratch(vfs.NewMem(), "s", budget)}
}

// extendInSteps appends a text in parts of random length, and compares all logits.
func extendInSteps(t *testing.T, rng *rand.Rand, m *Model, ids []int32, want [][]float32) {
	t.Helper()
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	for at := 0; at < len(ids); {
		n := min(1+rng.IntN(1<<rng.IntN(8)), len(ids)-at)
		require.Equal(t, want[at:at+n], extendAll(t, m, s, ids[at:at+n]), "tokens from %d", at)
		at += n
	}
}

var randomMixes = []string{"", "", "q8", "q4", "nf4", "q4s", "q4all"}

// TestRandomModelsMatchThePlainPass compares models of random shapes with the pass that computes one token at a time in
// float32, and the fast arithmetic with itself, for other chunks, threads and steps.
func TestRandomModelsMatchThePlainPass(t *testing.T) {
	randomModels(t, 0, 12, 0, func(t *testing.T, rng *rand.Rand, random *modeltest.RandomModel) {
		mix, chunk := oneOf(rng, randomMixes...), oneOf(rng, 1, 7, 16, 17, 31, 64)
		exact := loadRandom(t, random, mix, Options{Exact: true, KV: kv.F32, Chunk: chunk, Threads: 1 + rng.IntN(2)})
		n := min(exact.Spec.Context, oneOf(rng, chunk, chunk+1, max(1, chunk-1), 70, exact.Spec.Context))
		ids := longPrompt(exact.Spec.Vocab, n, rng.Uint64())
		plain := newPlainPass(exact)
		for i, got := range allLogits(t, exact, ids) {
			want := plain.token(ids[i])
			for j := range want {
				require.False(t, math.IsNaN(float64(got[j])), "token %d, logit %d", i, j)
				require.InDelta(t, want[j], got[j], 2e-3*max(0.1, deviation(want)), "token %d, logit %d", i, j)
			}
		}
		format := oneOf(rng, kv.Formats()...)
		fast := loadRandom(t, random, mix, Options{KV: format, Chunk: 64, Threads: 2})
		want := allLogits(t, fast, ids)
		other := loadRandom(t, random, mix, Options{KV: format, Chunk: chunk, Threads: 1})
		require.Equal(t, want, allLogits(t, other, ids), "chunks of %d, %v, %q", chunk, format, mix)
		extendInSteps(t, rng, fast, ids, want)
	})
}

// TestRandomModelsFromPacks compares models of random shapes with their packs under random plans, and with pages on flash.
func TestRandomModelsFromPacks(t *testing.T) {
	randomModels(t, 5000, 4, 700, func(t *testing.T, rng *rand.Rand, random *modeltest.RandomModel) {
		mix, format := oneOf(rng, randomMixes...), oneOf(rng, kv.Formats()...)
		whole := loadRandom(t, random, mix, Options{KV: format, Chunk: 64, Threads: 2})
		ids := longPrompt(whole.Spec.Vocab, 130+rng.IntN(testutil.Effort(100, 400)), rng.Uint64())
		want := allLogits(t, whole, ids)

		source, to := openRandom(t, random, mix), vfs.NewMem()
		require.NoError(t, weights.Import(context.Background(), source, to, "m.pack", weights.ImportOptions{}))
		require.NoError(t, source.Close())
		pack := openPack(t, to)
		require.Equal(t, want, allLogits(t, loadPart(t, pack, Options{KV: format, Threads: 1}), ids), "the whole pack")
		for range 2 {
			plan := partPlan(rng, whole.Spec)
			part := loadPart(t, pack, Options{KV: format, Threads: 1 + rng.IntN(2), Chunk: oneOf(rng, 1, 7, 16, 33, 70), Plan: plan})
			require.Equal(t, want, allLogits(t, part, ids), "plan %+v", plan)
		}
		extendInSteps(t, rng, loadRandom(t, random, mix, spilling(format, oneOf(rng, 1, 7, 33, 64))), ids, want)
	})
}

// TestRandomModelsInBatches extends several sequences of models of random shapes at the same time, which want the logits of
// some of their tokens, and compares them with those of each text alone.
func TestRandomModelsInBatches(t *testing.T) {
	randomModels(t, 9000, 4, 300, func(t *testing.T, rng *rand.Rand, random *modeltest.RandomModel) {
		mix, format := oneOf(rng, "", "q8", "q4"), oneOf(rng, kv.Formats()...)
		alone := loadRandom(t, random, mix, Options{KV: format, Chunk: 64, Threads: 2})
		together := alone
		if rng.IntN(2) == 0 {
			together = loadRandom(t, random, mix, spilling(format, 64))
		}
		var texts []textInBatch
		for range testutil.Effort(4, 7) {
			n := 1 + rng.IntN(290)
			ids := longPrompt(alone.Spec.Vocab, n+9, rng.Uint64())
			s, err := together.NewSequence(0)
			require.NoError(t, err)
			defer s.Close()
			extendAll(t, together, s, ids[:n])
			texts = append(texts, textInBatch{seq: s, ids: ids, want: allLogits(t, alone, ids)})
		}
		for range 6 {
			var callers sync.WaitGroup
			for i := range texts {
				x := &texts[i]
				count := min(rng.IntN(4), len(x.ids)-x.seq.Len())
				wanted := [3]bool{rng.IntN(3) > 0, rng.IntN(3) > 0, rng.IntN(3) > 0}
				if count > 0 {
					callers.Go(func() { x.extend(together, count, wanted) })
				}
			}
			callers.Wait()
			for i := range texts {
				require.NoError(t, texts[i].err, "text %d", i)
			}
		}
	})
}

// textInBatch is a text, of which a sequence has the beginning.
type textInBatch struct {
	seq  *Sequence
	ids  []int32
	want [][]float32 // logits after each token
	err  error       // of the last extend
}

// extend appends tokens to the sequence, and compares the logits that are wanted.
func (x *textInBatch) extend(m *Model, count int, wanted [3]bool) {
	at, got := x.seq.Len(), 0
	err := m.Extend(context.Background(), x.seq, x.ids[at:at+count], &ExtendOptions{
		Want: func(pos int) bool { return wanted[pos-at] },
		Each: func(pos int, logits []float32) error {
			got++
			if !slices.Equal(x.want[pos], logits) {
				return fmt.Errorf("the logits behind token %d differ", pos)
			}
			return nil
		},
	})
	want := 0
	for i := range count {
		if wanted[i] {
			want++
		}
	}
	if err == nil && got != want {
		err = fmt.Errorf("%d logits instead of %d", got, want)
	}
	x.err = err
}
