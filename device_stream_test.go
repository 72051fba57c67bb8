package llmrun_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

// onGPU returns options for a GPU that computes some of the last layers; 0 is as many as fit. It skips
// the test without a driver.
func onGPU(t *testing.T, path string, layers int) llmrun.Options {
	t.Helper()
	options := llmrun.Options{Threads: 2, Context: 64, Device: llmrun.DeviceOptions{Name: "gpu", GPULayers: layers}, Memory: llmrun.MemoryOptions{RAM: llmrun.NoLimit}}
	_, err := llmrun.PlanPlacement(t.Context(), path, options)
	if errors.Is(err, llmrun.ErrNotBuilt) || errors.Is(err, llmrun.ErrNoDriver) {
		t.Skip(err)
	}
	require.NoError(t, err)
	return options
}

// TestLayersBesideGPUAreStreamed runs models whose last layers, or all, are on a GPU in the smallest
// budget: the other layers and the embedding are read from flash, from a file or a pack. Logits and
// tokens are those of the model in memory, and the ledger stays within the budget, also when the
// budget changes.
func TestLayersBesideGPUAreStreamed(t *testing.T) {
	for _, tied := range []bool{false, true} {
		shape := layered(t, "tiny")
		shape.Vocab, shape.Tied = 8192, tied
		file := writeShape(t, shape, "q4_k_m")
		for name, path := range map[string]string{"file": file, "pack": packed(t, file, llmrun.ImportOptions{})} {
			for _, layers := range []int{shape.Layers, 2} {
				all := layers == shape.Layers
				if testutil.Effort(0, 1) == 0 && all != (tied == (name == "file")) {
					continue // each pair of the three is left
				}
				t.Run(fmt.Sprintf("%s, tied %v, %d layers", name, tied, layers), func(t *testing.T) {
					requireStreamedBesideGPU(t, path, onGPU(t, path, layers))
				})
			}
		}
	}
}

// TestPlacementOfShortContext places the layers of a model whose context has no room for the answer that
// plans leave room for, within a budget.
func TestPlacementOfShortContext(t *testing.T) {
	shape := small(t)
	shape.Context = 256
	path := writeShape(t, shape, "q8_0")
	options := onGPU(t, path, 2)
	options.Context, options.Memory.RAM = 0, 1<<30
	placed, err := llmrun.PlanPlacement(t.Context(), path, options)
	require.NoError(t, err)
	require.Equal(t, 2, placed.Layers)
	require.Equal(t, 256, placed.Context)
}

func requireStreamedBesideGPU(t *testing.T, path string, options llmrun.Options) {
	whole := open(t, path, options)
	ids := someIDs(whole, 20)
	at := []int{0, 7, 18, 19}
	want, err := whole.Logits(t.Context(), ids, at)
	require.NoError(t, err)
	answer := func(e *llmrun.Engine) []int32 {
		o := limit(6)
		o.IgnoreEOS = true
		s := newSession(t, e)
		defer func() { require.NoError(t, s.Close()) }()
		return complete(t, s.GenerateIDs(t.Context(), ids, o)).IDs
	}
	tokens, host := answer(whole), whole.Placement().Host
	require.NoError(t, whole.Close())

	options.Memory.RAM = minimum(t, path, options)
	plan, err := llmrun.PlanMemory(t.Context(), path, options, llmrun.PlanOptions{})
	require.NoError(t, err)
	e := open(t, path, options)
	require.Equal(t, plan.Plan, e.Memory().Plan)
	require.Equal(t, plan.GPU.Layers, e.Placement().Layers)
	require.Equal(t, plan.GPU.Host, e.Placement().Host)
	require.Equal(t, plan.GPU.Layers < plan.GPU.ModelLayers, !plan.Resident())
	require.Equal(t, tokens, answer(e))
	require.LessOrEqual(t, e.Memory().Ledger, options.Memory.RAM)
	require.NoError(t, e.SetBudget(llmrun.NoLimit))
	require.Equal(t, tokens, answer(e))
	got, err := e.Logits(t.Context(), ids, at)
	require.NoError(t, err)
	require.Equal(t, want, got)
	trim(t, e, llmrun.TrimCritical)
	require.Equal(t, plan.GPU.Layers < plan.GPU.ModelLayers, e.Placement().Host < host)
	require.Equal(t, tokens, answer(e))
}

// TestPlanAndOpenAgreeOnGPU is TestPlanAndOpenAgree for models with layers on a GPU.
func TestPlanAndOpenAgreeOnGPU(t *testing.T) {
	shape := layered(t, "tiny")
	shape.Vocab, shape.Tied = 8192, false
	path := writeShape(t, shape, "q8_0")
	for _, layers := range []int{0, 2} {
		t.Run(fmt.Sprintf("%d layers", layers), func(t *testing.T) {
			requireAgreement(t, agreeCell{path: path, options: onGPU(t, path, layers)}, llmrun.PlanOptions{})
		})
	}
}

// TestBudgetDoesNotMoveLayersOnGPU opens a model on a GPU that shares the machine's memory, in budgets without
// room for all of its layers. They are refused with the minimum for all layers and with the most layers
// that fit, which run; one layer more does not.
func TestBudgetDoesNotMoveLayersOnGPU(t *testing.T) {
	shape := layered(t, "tiny")
	shape.Vocab, shape.Tied = 4096, false
	path := writeShape(t, shape, "q8_0")
	options := onGPU(t, path, 1)
	one := minimum(t, path, options)
	options.Device.GPULayers = 0
	whole := minimum(t, path, options)
	options.Device.GPULayers = shape.Layers
	require.Equal(t, minimum(t, path, options), whole)
	if one == whole {
		t.Skip("the GPU has memory of its own")
	}
	plan := func(layers int, ram int64) (*llmrun.MemoryPlan, error) {
		options.Device.GPULayers, options.Memory.RAM = layers, ram
		p, planned := llmrun.PlanMemory(t.Context(), path, options, llmrun.PlanOptions{})
		e, opened := llmrun.Open(path, options)
		if planned != nil {
			require.EqualError(t, opened, planned.Error())
			return p, planned
		}
		require.NoError(t, opened)
		require.Equal(t, p.GPU.Layers, e.Placement().Layers)
		require.NoError(t, e.Close())
		return p, nil
	}
	p, err := plan(0, whole)
	require.NoError(t, err)
	require.Equal(t, shape.Layers, p.GPU.Layers)
	last := 0
	for _, ram := range []int64{one, (one + whole) / 2, whole - 1} {
		p, err := plan(0, ram)
		require.ErrorIs(t, err, llmrun.ErrBudget)
		require.Equal(t, whole, p.Minimum)
		require.Len(t, p.Advice, 1)
		fits := 0
		_, err = fmt.Sscanf(p.Advice[0].Change, "--gpu-layers %d", &fits)
		require.NoError(t, err)
		require.GreaterOrEqual(t, fits, max(1, last))
		require.ErrorContains(t, second(plan(0, ram)), fmt.Sprintf("(--gpu-layers %d)", fits))
		require.NoError(t, second(plan(fits, ram)))
		require.ErrorIs(t, second(plan(fits+1, ram)), llmrun.ErrBudget)
		last = fits
	}
	require.Greater(t, last, 1)
	require.ErrorContains(t, second(plan(0, one-1)), "with --gpu-layers 1 the budget must be at least")
}

// TestPlanOnGPUIsCancelled checks that the caller's context ends the rehearsal of a GPU's kernels.
func TestPlanOnGPUIsCancelled(t *testing.T) {
	path := writeShape(t, layered(t, "tiny"), "q8_0")
	options := onGPU(t, path, 1) // skips without a driver
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := llmrun.PlanPlacement(ctx, path, options)
	require.ErrorIs(t, err, context.Canceled)
	_, err = llmrun.PlanMemory(ctx, path, options, llmrun.PlanOptions{})
	require.ErrorIs(t, err, context.Canceled)
}
