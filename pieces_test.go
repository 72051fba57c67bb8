package llmrun_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/store/synth"
)

// layered is a shape whose minimum budget holds only a part of the weights.
func layered(t *testing.T, name string) synth.Shape {
	shape, ok := synth.FindShape(name)
	require.True(t, ok)
	shape.Layers, shape.Dim, shape.FFN = 6, 512, 1024
	return shape
}

// TestModelsAreReadInPieces opens models of each kind in the smallest budget, where their weights
// are converted while they are read. The tokens are those of the same model in memory. A plan and
// an engine tell the user that this is slower.
func TestModelsAreReadInPieces(t *testing.T) {
	t.Parallel()
	untied := layered(t, "tiny")
	untied.Vocab, untied.Tied = 4096, false
	small := untied
	small.Dim, small.FFN = 256, 768
	moe := layered(t, "tiny-moe")
	moe.Layers = 2
	rates := llmrun.PlanOptions{RatesDir: t.TempDir()}
	for name, c := range map[string]struct {
		path    string
		options llmrun.Options
	}{
		"GGUF":                   {path: writeShape(t, layered(t, "tiny"), "q8_0")},
		"GGUF with its own head": {path: writeShape(t, untied, "q4_k_m")},
		"GGUF with experts":      {path: writeShape(t, moe, "q4_0")},
		"floats":                 {path: writeShape(t, layered(t, "tiny"), "f16")},
		"exact":                  {path: writeShape(t, layered(t, "tiny"), "q8_0"), options: llmrun.Options{Exact: true}},
		"quantized":              {path: writeShape(t, small, "f16"), options: llmrun.Options{Quantize: "q8"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.options.Threads, c.options.Context = 2, 64
			c.options.Memory.RAM = llmrun.NoLimit
			ctx, o := context.Background(), limit(6)
			o.IgnoreEOS = true
			whole := open(t, c.path, c.options)
			want := complete(t, newSession(t, whole).GenerateIDs(ctx, someIDs(whole, 20), o)).IDs

			c.options.Memory.RAM = minimum(t, c.path, c.options)
			var planned, notes []string
			c.options.Notify = func(text string) { planned = append(planned, text) }
			plan, err := llmrun.PlanMemory(ctx, c.path, c.options, rates)
			require.NoError(t, err)
			require.False(t, plan.Resident())
			require.Positive(t, plan.Measured.ConvertGBs)
			c.options.Notify = func(text string) { notes = append(notes, text) }
			e := open(t, c.path, c.options)
			require.Len(t, notes, 1)
			require.Equal(t, planned, notes)
			require.Contains(t, notes[0], "slower")
			s := newSession(t, e)
			require.Equal(t, want, complete(t, s.GenerateIDs(ctx, someIDs(e, 20), o)).IDs)
			require.Positive(t, s.Stats().DecodeFlash.Bytes)
			require.LessOrEqual(t, e.Memory().Ledger, c.options.Memory.RAM)

			// The budget changes while the model is open, in both directions.
			require.NoError(t, e.SetBudget(llmrun.NoLimit))
			now := e.Memory().Plan
			require.True(t, now.Resident())
			require.Equal(t, want, complete(t, newSession(t, e).GenerateIDs(ctx, someIDs(e, 20), o)).IDs)
			trim(t, e, llmrun.TrimCritical)
			now = e.Memory().Plan
			require.False(t, now.Resident())
			require.Equal(t, want, complete(t, newSession(t, e).GenerateIDs(ctx, someIDs(e, 20), o)).IDs)
		})
	}
}

// TestLogitsStayWithinTheBudget computes rows of logits for which weights make room, and refuses
// rows that do not fit before it computes them.
func TestLogitsStayWithinTheBudget(t *testing.T) {
	shape := layered(t, "tiny")
	shape.Vocab, shape.Tied = 60000, false
	options := llmrun.Options{Threads: 2, Context: 64}
	path := writeShape(t, shape, "q4_0")
	options.Memory.RAM = llmrun.NoLimit
	whole := open(t, path, options)
	ids, at := someIDs(whole, 12), []int{0, 3, 5, 6, 7, 8, 9, 10, 11}
	want, err := whole.Logits(context.Background(), ids, at)
	require.NoError(t, err)

	options.Memory.RAM = minimum(t, path, options)
	e := open(t, path, options)
	_, err = e.Logits(context.Background(), ids, at[:2])
	require.NoError(t, err, "the rows are part of the planned heap")
	_, err = e.Logits(context.Background(), ids, at)
	require.ErrorIs(t, err, llmrun.ErrBudget)
	require.ErrorContains(t, err, "the logits of 9 positions take up to 2.06 MiB")
	require.NoError(t, e.SetBudget(options.Memory.RAM+4<<20))
	got, err := e.Logits(context.Background(), ids, at)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.LessOrEqual(t, e.Memory().Ledger, options.Memory.RAM+4<<20)
	require.NoError(t, e.SetBudget(llmrun.NoLimit))
}
