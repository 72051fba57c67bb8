package llmrun_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/tiering"
)

// TestExpertUse checks the statistics of the expert cache of a generation.
func TestExpertUse(t *testing.T) {
	path := experts(t)
	options := llmrun.Options{Threads: 2, Context: 128, Memory: llmrun.MemoryOptions{RAM: llmrun.NoLimit}}
	use := func() (f llmrun.FlashUse, tokens int) {
		e := open(t, path, options)
		s := newSession(t, e)
		o := limit(9)
		o.IgnoreEOS = true
		complete(t, s.GenerateIDs(context.Background(), someIDs(e, 20), o))
		return s.Stats().DecodeFlash, s.Stats().GeneratedTokens - 1
	}
	whole, _ := use()
	require.Equal(t, whole.Experts.Used, whole.Experts.Hits)
	require.Zero(t, whole.Bytes)

	options.Memory.RAM = minimum(t, path, options)
	f, tokens := use()
	x := f.Experts
	require.Positive(t, x.Slots)
	require.Zero(t, x.Used%int64(tokens), "each token uses as many: %+v", x)
	require.Less(t, x.Hits, x.Used)
	require.Positive(t, x.Bytes)
	require.GreaterOrEqual(t, f.Bytes, x.Bytes)
	require.InDelta(t, float64(x.Hits)/float64(x.Used), x.HitRate(), 1e-9)
	require.Zero(t, llmrun.ExpertUse{}.HitRate())

	// Waits for experts alone are counted too.
	options.Lab.Disk = llmrun.DiskSpeed{Latency: time.Millisecond}
	for f.Bytes > f.Experts.Bytes { // until all other weights are in memory
		options.Memory.RAM += 2 << 20
		f, _ = use()
	}
	require.Positive(t, f.Bytes)
	require.Positive(t, f.Stalled)
	require.Positive(t, f.Stalls)
}

// TestPlanLearnsFromRouters plans a model before and after a run that read experts: the second
// plan predicts with what the router chose.
func TestPlanLearnsFromRouters(t *testing.T) {
	path := experts(t)
	options := llmrun.Options{Threads: 2, Context: 512, Memory: llmrun.MemoryOptions{RAM: llmrun.NoLimit}}
	options.Memory.RAM = minimum(t, path, options) + 16<<20
	options.Cache.Dir = t.TempDir()
	require.NoError(t, os.Chmod(options.Cache.Dir, 0o700))
	all := 0
	var plan *llmrun.MemoryPlan
	reuse := func() float64 {
		p, err := llmrun.PlanMemory(t.Context(), path, options, llmrun.PlanOptions{})
		require.NoError(t, err)
		require.Positive(t, p.ExpertSlots)
		require.Less(t, p.ExpertSlots, p.Experts)
		all, plan = p.Experts, p
		return p.Rates.ExpertReuse
	}
	require.Zero(t, reuse(), "no run yet")
	require.Zero(t, plan.Rates.PromptReuse)
	first := plan.StreamedPerToken

	e := open(t, path, options)
	s := newSession(t, e)
	o := limit(400)
	o.IgnoreEOS = true
	complete(t, s.GenerateIDs(t.Context(), someIDs(e, 20), o))
	x := s.Stats().DecodeFlash.Experts
	require.Greater(t, x.Used, int64(1000))
	require.NoError(t, s.Close())
	require.NoError(t, e.Close())

	const each = 4 // experts of a token in a layer
	require.Greater(t, x.Slots, each)
	absent := float64(all-x.Slots) / float64(all-each)
	require.InEpsilon(t, tiering.ReuseOfAnswers(absent, 1-x.HitRate()), reuse(), 1e-9)
	require.LessOrEqual(t, plan.StreamedPerToken, first, "a first plan promises no more than the router gives")
	require.GreaterOrEqual(t, plan.Rates.PromptReuse, 1.0)
}
