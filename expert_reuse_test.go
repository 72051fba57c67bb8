package llmrun

import (
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/tiering"
)

// TestReuseIsAMean: a plan predicts with the mean of what runs saw, in which each use of an expert counts, so that a short run
// does not move it far, and old ones not for ever.
func TestReuseIsAMean(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	shape := tiering.Shape{ExpertLayers: 16, Experts: 64, ExpertsUsed: 8, ExpertBytes: 100}
	o := Options{Threads: 1, Cache: CacheOptions{Dir: dir}}
	learned := func() Rates {
		var r Rates
		m := o.rateMeasurer()
		m.expertReuse("moe.pack", &shape, &r)
		return r
	}
	run := func(missed float64, used int64, tokens, different float64) {
		r := newExpertReuse(&o, "moe.pack", &shape)
		r.add(ExpertUse{Slots: 516, Used: used, Hits: used - int64(missed*float64(used))})
		steps := weights.SharedSteps{}
		if tokens > 0 {
			steps = weights.SharedSteps{Steps: used / 100, LogTokens: float64(used/100) * math.Log(tokens), LogUsed: float64(used/100) * math.Log(different)}
		}
		require.NoError(t, r.save(steps))
	}
	require.Equal(t, Rates{}, learned())
	run(0.5, 999, 0, 0)
	require.Equal(t, Rates{}, learned(), "too few uses")
	quarter, sixteenth := tiering.ReuseOfAnswers(0.5, 0.25), tiering.ReuseOfAnswers(0.5, 0.0625)
	run(0.25, 4000, 16, 36)
	require.InDelta(t, quarter, learned().ExpertReuse, 0.02)
	prompts := learned().PromptReuse
	require.InEpsilon(t, tiering.ReuseOfPrompts(64, 8, 16, 36), prompts, 1e-9)
	run(0.0625, 4000, 0, 0)
	require.InDelta(t, (quarter+sixteenth)/2, learned().ExpertReuse, 0.02)
	require.InEpsilon(t, prompts, learned().PromptReuse, 1e-9, "no step of several tokens")
	run(0.0625, 10*reuseHorizon, 16, 36)
	require.InDelta(t, sixteenth, learned().ExpertReuse, 0.05)
	run(0.25, reuseHorizon, 16, 36)
	require.InDelta(t, (quarter+sixteenth)/2, learned().ExpertReuse, 0.05, "however many runs there were before")
}
