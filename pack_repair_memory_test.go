package llmrun_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/tiering"
)

// TestRepairNeedsMemory refuses the memory of a repair at each of its reservations: the pass fails as
// it does without a repair, and names the reason.
func TestRepairNeedsMemory(t *testing.T) {
	c := newDamageCase(t, untiedModel(t, "q8_0"), 1, nil)
	want, _, err := c.run(t, func(int) {})
	require.NoError(t, err)
	refused := 0
	for n := int64(0); ; n++ {
		name := c.pack(t)
		var seen atomic.Int64
		var armed atomic.Bool
		tiering.SetFaults(func(r tiering.Request) bool {
			return !r.Map && armed.Load() && seen.Add(1) == n+1
		})
		got, _, err := c.run(t, func(k int) {
			if k == 5 {
				damageTensors(t, name, "token_embd")
				armed.Store(true)
			}
		})
		tiering.SetFaults(nil)
		if seen.Load() <= n {
			require.NoError(t, err)
			require.Equal(t, want, got)
			break
		}
		if err == nil {
			require.Equal(t, want, got)
		} else {
			refused++
			require.ErrorIs(t, err, llmrun.ErrFormat)
			require.ErrorContains(t, err, name)
			require.ErrorContains(t, err, "memory budget exceeded")
			require.ErrorContains(t, err, "open the model again")
			require.NoFileExists(t, name)
		}
		_, _, err = c.run(t, func(int) {})
		require.NoError(t, err)
	}
	require.Positive(t, refused)
}

// TestBudgetsLeaveRoomForRepair sets budgets while the engine is open: none that has no room for a
// repair is accepted, and Trim keeps the room.
func TestBudgetsLeaveRoomForRepair(t *testing.T) {
	t.Parallel()
	c := newDamageCase(t, untiedModel(t, "q8_0"), 0, nil)
	c.opts.Memory.RAM = 200 << 20
	want, _, err := c.run(t, func(int) {})
	require.NoError(t, err)
	for _, shrink := range []func(e *llmrun.Engine){
		func(e *llmrun.Engine) {
			var refused *llmrun.MinimumError
			require.ErrorAs(t, e.SetBudget(1<<20), &refused)
			require.NoError(t, e.SetBudget(refused.Minimum))
		},
		func(e *llmrun.Engine) { trim(t, e, llmrun.TrimCritical) },
	} {
		e := open(t, c.model, c.opts)
		shrink(e)
		damageTensors(t, c.pack(t), "")
		seed := uint64(7)
		got := collect(newSession(t, e).GenerateIDs(t.Context(), []int32{1, 2, 3, 50, 60}, llmrun.GenerateOptions{
			MaxTokens: 12, IgnoreEOS: true, Sampling: llmrun.Sampling{Temperature: 3, Seed: &seed},
		}))
		require.NoError(t, got.err)
		require.Equal(t, want, got.IDs)
		require.NoError(t, e.Close())
		_, _, err = c.run(t, func(int) {}) // imports again
		require.NoError(t, err)
	}
}
