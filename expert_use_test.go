package llmrun_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
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
}
