package llmrun_test

import (
	"context"
	"os"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/tiering"
)

// releases sets a small budget during a generation. It calls before, lowers the budget, and calls after with the bytes
// by which the engine's own count fell before SetBudget returned: most of the weights.
func releases(t *testing.T, before func(), after func(fell int64)) {
	dim := 1024
	if testing.Short() { // the race detector makes the pack slowly
		dim = 512
	}
	path := mediumPack(t, dim)
	options := llmrun.Options{Threads: 2, Context: 256, Memory: llmrun.MemoryOptions{Chunk: 16}}
	least := minimum(t, path, options)
	options.Memory.RAM = 1 << 30
	e := open(t, path, options)
	info, err := os.Stat(path)
	require.NoError(t, err)
	s := newSession(t, e)
	o := limit(6)
	o.IgnoreEOS = true
	step := 0
	for _, err := range s.GenerateIDs(context.Background(), someIDs(e, 20), o) {
		require.NoError(t, err)
		if step++; step != 3 {
			continue
		}
		ledger := held(e)
		before()
		require.NoError(t, e.SetBudget(least+8<<20))
		fell := ledger - held(e)
		require.Greater(t, fell, info.Size()*3/5)
		after(fell)
	}
	require.Equal(t, 6, step)
}

// TestSetBudgetReleasesMemory checks that frames are freed before SetBudget returns, during a generation. The
// tests of package tiering check that the system then has their pages.
func TestSetBudgetReleasesMemory(t *testing.T) {
	releases(t, func() {}, func(int64) {})
}

// TestMeasuredSetBudgetReleasesMemory checks that the memory that the system reports for the process
// decreases before SetBudget returns.
func TestMeasuredSetBudgetReleasesMemory(t *testing.T) {
	testutil.Measured(t)
	system := int64(0)
	releases(t, func() {
		debug.FreeOSMemory()
		system = tiering.ReadResident(tiering.SystemRoot()).Now
	}, func(fell int64) {
		now := tiering.ReadResident(tiering.SystemRoot()).Now
		t.Logf("the engine released %d bytes, the process %d", fell, system-now)
		require.GreaterOrEqual(t, system-now, fell/5)
	})
}

// mediumPack returns a pack of a model of this dimension: about 170 MB for 1024, which take several passes to promote.
func mediumPack(t *testing.T, dim int) string {
	shape, ok := synth.FindShape("tiny")
	require.True(t, ok)
	shape.Layers, shape.Dim, shape.FFN, shape.Vocab = 10, dim, 4*dim, 2048
	return packedShape(t, shape, "q8_0")
}

// TestSetBudgetDuringPromotion changes the budget while weights are promoted from the mapping
// of the first token to huge pages. The tokens do not change, the engine stays within the
// budget, and in the end nothing is mapped.
func TestSetBudgetDuringPromotion(t *testing.T) {
	path := mediumPack(t, 1024)
	options := llmrun.Options{Threads: 2, Context: 256, Memory: llmrun.MemoryOptions{Chunk: 16}}
	least := minimum(t, path, options)
	options.Memory.RAM = 1 << 30
	last := 24
	if portable() {
		last = 14
	}
	run := func(pin string, at func(e *llmrun.Engine, step int)) (ids []int32) {
		options.Memory.Pin = pin
		e := open(t, path, options)
		s := newSession(t, e)
		o := limit(last)
		o.IgnoreEOS = true
		for piece, err := range s.GenerateIDs(context.Background(), someIDs(e, 5), o) {
			require.NoError(t, err)
			ids = append(ids, piece.ID)
			at(e, len(ids))
		}
		return ids
	}
	want := run("anon", func(e *llmrun.Engine, _ int) { require.Zero(t, e.Memory().Held["mapped files"]) })
	whole := int64(0)
	got := run("auto", func(e *llmrun.Engine, step int) {
		mapped := e.Memory().Held["mapped files"]
		switch step {
		case 1:
			if whole = mapped; whole == 0 {
				t.Skip("the page cache does not hold the file, or the system does not report it")
			}
		case 3:
			require.Less(t, mapped, whole)
			require.Positive(t, mapped)
			trim(t, e, llmrun.TrimLow)
		case 6:
			require.NoError(t, e.SetBudget(least+8<<20))
			require.LessOrEqual(t, held(e), least+8<<20)
		case 9:
			require.NoError(t, e.SetBudget(1<<30))
		case last:
			require.Zero(t, mapped)
		}
		require.LessOrEqual(t, held(e), e.Memory().Budget)
	})
	require.Equal(t, want, got)
}
