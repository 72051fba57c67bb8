package exec

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// importPlanes imports a model with a mix, in planes if they are chosen, and opens the pack.
func importPlanes(t *testing.T, dir, mix string, planes weights.PlaneOf) *modelfile.Files {
	f, err := modelfile.Open(vfs.OS(), dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	if mix != "" {
		require.NoError(t, f.Quantize(mix, nil))
	}
	to := vfs.NewMem()
	require.NoError(t, weights.Import(context.Background(), f, to, "m.pack", weights.ImportOptions{Made: "test", Planes: planes}))
	return openPack(t, to)
}

// splitAll chooses 4 of 8 bits, and 3 or 2 of 4.
func splitAll(name string, typ quant.Type) tiled.Plane {
	switch {
	case tiled.High4.Of(typ):
		return tiled.High4
	case tiled.High2.Of(typ) && name[len(name)-8] == 'k':
		return tiled.High2
	case tiled.High3.Of(typ):
		return tiled.High3
	}
	return tiled.Whole
}

// nestedPlan returns a plan that keeps the high planes and a random part of the others.
func nestedPlan(t *testing.T, f *modelfile.Files, rng *rand.Rand) (plan *tiering.Plan, streamed int64) {
	shape, _, err := MeasureShape(f, ShapeOptions{Threads: 1, KV: kv.F32, Nested: true})
	require.NoError(t, err)
	plan = partPlan(rng, packSpec(t, f))
	for i := range shape.Layers {
		plan.Pinned[i] = max(plan.Pinned[i], shape.Layers[i].Fixed)
		streamed += max(0, shape.Layers[i].Bytes-plan.Pinned[i])
	}
	plan.HeadPinned = max(plan.HeadPinned, shape.Head.Fixed)
	return plan, streamed
}

// TestPlanesGiveTheSameLogits compares models in planes, of which low ones are streamed, and packs of planes that
// are joined as they are read, with packs without planes, to the last bit. Drafts change nothing.
func TestPlanesGiveTheSameLogits(t *testing.T) {
	var streamed int64
	for _, name := range []string{"llama3", "gpt_neox", "gemma2", "qwen3", "phi"}[:testutil.Effort(2, 5)] {
		for _, mix := range []string{"q8", "q4s"} {
			t.Run(name+"/"+mix, func(t *testing.T) {
				streamed += comparePlanes(t, filepath.Dir(testutil.Glob(t, "fixtures", name+"/config.json")[0]), mix)
			})
		}
	}
	for _, typ := range []string{"q4_k_m", "q5_k_s", "q4_1", "iq4_nl"} {
		t.Run(typ, func(t *testing.T) {
			streamed += comparePlanes(t, testutil.Shared(t, "gguf", "tiny-llama-"+typ+".gguf"), "")
		})
	}
	require.Positive(t, streamed, "no plan streams low planes")
}

// comparePlanes is TestPlanesGiveTheSameLogits for a model. It returns how much its plans stream.
func comparePlanes(t *testing.T, path, mix string) (streamed int64) {
	whole := loadPart(t, importPlanes(t, path, mix, nil), Options{Threads: 2, Chunk: 64})
	ids := longPrompt(whole.Spec.Vocab, 30, 7)
	want := allLogits(t, whole, ids)
	f := importPlanes(t, path, mix, splitAll)
	require.Equal(t, want, allLogits(t, loadPart(t, f, Options{Threads: 2, Chunk: 64}), ids))
	for seed := range uint64(2) {
		rng := rand.New(rand.NewPCG(seed, 3))
		plan, bytes := nestedPlan(t, f, rng)
		streamed += bytes
		m := loadPart(t, f, Options{Threads: 1 + rng.IntN(3), Chunk: 1 + rng.IntN(70), Plan: plan, Nested: true})
		require.True(t, Drafts(m))
		require.Equal(t, want, allLogits(t, m, ids), "seed %d: %+v", seed, plan)
		require.Equal(t, want, withDrafts(t, m, ids), "seed %d: %+v", seed, plan)
		other, _ := nestedPlan(t, f, rng)
		require.NoError(t, m.Replan(context.Background(), other))
		require.Equal(t, want, withDrafts(t, m, ids), "seed %d: %+v", seed, other)
	}
	return streamed
}

// TestPlanesAreMeasured measures the planes of a model on a text, and stores those that are chosen for a part of its memory: the
// logits stay those of the whole model. Fewer bits lose more, and a matrix in all its bits nothing.
func TestPlanesAreMeasured(t *testing.T) {
	f, err := modelfile.Open(vfs.OS(), filepath.Dir(testutil.Glob(t, "fixtures", "qwen3/config.json")[0]))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	require.NoError(t, f.Quantize("q4s", nil))
	whole := loadPart(t, f, Options{Threads: 2})
	ids := longPrompt(whole.Spec.Vocab, 30, 7)
	calls := int64(0)
	planes, err := MeasurePlanes(context.Background(), f, ids, Options{Threads: 2}, func(done, total int64) {
		calls++
		require.Equal(t, calls, done)
		require.GreaterOrEqual(t, total, done)
	})
	require.NoError(t, err)
	require.EqualValues(t, planes.Count(), calls)
	require.Equal(t, len(ids), planes.Tokens)
	sums := map[tiled.Plane]float64{}
	for i := range planes.Matrices {
		for _, high := range planes.Matrices[i].High {
			sums[high.Plane] += high.Loss
		}
	}
	require.Positive(t, sums[tiled.High4])
	require.Greater(t, sums[tiled.High2], 2*sums[tiled.High3])
	require.Positive(t, sums[tiled.High3])

	require.LessOrEqual(t, planes.Choose(0.7), 0.7)
	chosen := map[tiled.Plane]bool{}
	for i := range planes.Matrices {
		chosen[planes.Matrices[i].Chosen] = true
	}
	require.Greater(t, len(chosen), 1, "%v", chosen)
	to := vfs.NewMem()
	require.NoError(t, weights.Import(context.Background(), f, to, "m.pack", weights.ImportOptions{Made: "test", Planes: planes.Of}))
	m := loadPart(t, openPack(t, to), Options{Threads: 2, Plan: mustNest(t, openPack(t, to)), Nested: true})
	require.Equal(t, allLogits(t, whole, ids), withDrafts(t, m, ids))
}

// mustNest returns a plan of nestedPlan.
func mustNest(t *testing.T, f *modelfile.Files) *tiering.Plan {
	plan, _ := nestedPlan(t, f, rand.New(rand.NewPCG(1, 3)))
	return plan
}

// withDrafts returns the logits after every token of a sequence that drafts tokens in between.
func withDrafts(t *testing.T, m *Model, ids []int32) (out [][]float32) {
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	var drafted []int32
	broken := errors.New("broken")
	for i := range ids {
		if i%5 == 0 {
			_, err = Draft(context.Background(), m, s, nil, ids[i], 3, func([]float32) (int32, bool, error) { return 0, true, broken })
			require.ErrorIs(t, err, broken)
			require.Equal(t, i, s.Len())
			drafted, err = Draft(context.Background(), m, s, drafted[:0], ids[i], 3, func(logits []float32) (int32, bool, error) { return argmax(logits), true, nil })
			require.NoError(t, err)
			require.Len(t, drafted, 3)
			require.Equal(t, i, s.Len())
		}
		out = append(out, extendAll(t, m, s, ids[i:i+1])...)
	}
	return out
}
