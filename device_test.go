package llmrun_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/cmd/llmrun/bundled"
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/devices"
)

func TestRefusedDevices(t *testing.T) {
	for _, o := range []llmrun.Options{
		{Device: llmrun.DeviceOptions{Name: "tpu"}},
		{Device: llmrun.DeviceOptions{Name: "gpux"}},
		{Device: llmrun.DeviceOptions{Name: "gpu"}, Memory: llmrun.MemoryOptions{KV: "f32"}},
		{Device: llmrun.DeviceOptions{Name: "gpu"}, Memory: llmrun.MemoryOptions{KVSelect: "auto"}},
		{Device: llmrun.DeviceOptions{Name: "gpu:any"}, Memory: llmrun.MemoryOptions{WatchPressure: true}},
		{Device: llmrun.DeviceOptions{Name: "gpu"}, Memory: llmrun.MemoryOptions{KVRAM: 1 << 20}},
		{Device: llmrun.DeviceOptions{Name: "gpu"}, Memory: llmrun.MemoryOptions{Pin: "anon"}},
		{Device: llmrun.DeviceOptions{Name: "gpu"}, Memory: llmrun.MemoryOptions{Pin: "file"}},
		{Device: llmrun.DeviceOptions{Name: "cpu+"}},
		{Device: llmrun.DeviceOptions{Name: "cpu+cpu"}, Memory: llmrun.MemoryOptions{KVRAM: 1 << 20}},
		{Device: llmrun.DeviceOptions{Name: "cpu+cpu"}, Memory: llmrun.MemoryOptions{WatchPressure: true}},
		{Device: llmrun.DeviceOptions{Name: "cpu+cpu", Quota: 1.5}},
		{Device: llmrun.DeviceOptions{Name: "gpu", Quota: 0.5}},
		{Device: llmrun.DeviceOptions{Name: "gpu", Memory: -1}},
		{Device: llmrun.DeviceOptions{Name: "cpu", Memory: 1 << 30}},
		{Device: llmrun.DeviceOptions{Name: "gpu", GPULayers: -1}},
		{Device: llmrun.DeviceOptions{Name: "cpu", GPULayers: 2}},
		{Device: llmrun.DeviceOptions{Name: "cpu+cpu", GPULayers: 2}},
		{Lab: llmrun.LabOptions{Trace: "trace"}},
		{Device: llmrun.DeviceOptions{Name: "cpu"}, Lab: llmrun.LabOptions{Trace: "trace"}},
	} {
		o.FS = bundled.FS
		_, err := llmrun.Open(bundled.Name, o)
		require.ErrorIs(t, err, llmrun.ErrOptions, "%+v", o)
	}
}

// TestSplitMatchesCPU compares the CPU with splits between the CPU and each available device,
// including half of the CPU's cores as a second device. The second prompt continues the
// session.
func TestSplitMatchesCPU(t *testing.T) {
	answer := func(device string) (list []int32) {
		engine, err := llmrun.Open(bundled.Name, llmrun.Options{FS: bundled.FS, Context: 256, Device: llmrun.DeviceOptions{Name: device}, Memory: llmrun.MemoryOptions{Chunk: 8, KV: "f16"}})
		require.NoError(t, err)
		defer func() {
			require.NoError(t, engine.Close())
			require.Zero(t, engine.MemoryUsed())
		}()
		require.Equal(t, device != "", engine.SplitMatmuls() != nil)
		session, err := engine.NewSession()
		require.NoError(t, err)
		for _, prompt := range []string{"Once upon a time, there was a little fox", " and then"} {
			for piece, err := range session.Generate(context.Background(), prompt, llmrun.GenerateOptions{MaxTokens: 6}) {
				require.NoError(t, err)
				list = append(list, piece.ID)
			}
		}
		return list
	}
	want := answer("")
	require.Equal(t, want, answer("cpu+cpu/2"))
	for device, kind := range map[string]hetero.Kind{"cpu+gpu": hetero.GPU, "cpu+npu": hetero.NPU} {
		if _, err := devices.All.First(kind); err != nil {
			t.Logf("%s is skipped: %v", device, err)
			_, err := llmrun.Open(bundled.Name, llmrun.Options{FS: bundled.FS, Device: llmrun.DeviceOptions{Name: device}})
			require.Error(t, err)
			require.Equal(t, errors.Is(err, devices.ErrNotBuilt), errors.Is(err, llmrun.ErrNotBuilt))
			continue
		}
		require.Equal(t, want, answer(device), device)
	}
}

// TestGPUMatchesCPU compares the answers of GPU and CPU, which agree because the demo model
// is rarely undecided. It also checks the trace.
func TestGPUMatchesCPU(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.json")
	options := llmrun.Options{FS: bundled.FS, Context: 256, Device: llmrun.DeviceOptions{Name: "gpu"}, Lab: llmrun.LabOptions{Trace: path}}
	gpu, err := llmrun.Open(bundled.Name, options)
	if errors.Is(err, llmrun.ErrNotBuilt) || errors.Is(err, llmrun.ErrNoDriver) {
		t.Skip(err)
	}
	require.NoError(t, err)
	cpu, err := llmrun.Open(bundled.Name, llmrun.Options{FS: bundled.FS, Context: 256})
	require.NoError(t, err)
	var answers [2][]int32
	for i, engine := range []*llmrun.Engine{gpu, cpu} {
		session, err := engine.NewSession()
		require.NoError(t, err)
		for piece, err := range session.Generate(context.Background(), "Once upon a time", llmrun.GenerateOptions{MaxTokens: 12}) {
			require.NoError(t, err)
			answers[i] = append(answers[i], piece.ID)
		}
	}
	require.Equal(t, answers[1], answers[0])
	require.NoError(t, cpu.Close())
	require.NoError(t, gpu.Close())
	trace, err := os.ReadFile(path)
	require.NoError(t, err)
	var file struct{ TraceEvents []struct{ Name string } }
	require.NoError(t, json.Unmarshal(trace, &file))
	count := map[string]int{}
	for _, e := range file.TraceEvents {
		count[e.Name]++
	}
	layers := gpu.Info().Layers
	require.GreaterOrEqual(t, count["attend_single"], 11*layers)
	require.GreaterOrEqual(t, count["attend_batch"], layers)
	require.GreaterOrEqual(t, count["wait"], 12)
}

// TestLastLayersOnGPU runs three layers on a GPU, and compares answers with the CPU's and the
// placement with the plan.
func TestLastLayersOnGPU(t *testing.T) {
	var notices []string
	options := llmrun.Options{FS: bundled.FS, Context: 256, Notify: func(text string) { notices = append(notices, text) }, Device: llmrun.DeviceOptions{Name: "gpu", GPULayers: 3}}
	plan, err := llmrun.PlanPlacement(t.Context(), bundled.Name, options)
	if errors.Is(err, llmrun.ErrNotBuilt) || errors.Is(err, llmrun.ErrNoDriver) {
		t.Skip(err)
	}
	require.NoError(t, err)
	require.Equal(t, 3, plan.Layers)
	require.Equal(t, 256, plan.Context)
	var answers [2][]int32
	for i, o := range []llmrun.Options{options, {FS: bundled.FS, Context: 256}} {
		engine, err := llmrun.Open(bundled.Name, o)
		require.NoError(t, err)
		session, err := engine.NewSession()
		require.NoError(t, err)
		for piece, err := range session.Generate(context.Background(), "Once upon a time", llmrun.GenerateOptions{MaxTokens: 12}) {
			require.NoError(t, err)
			answers[i] = append(answers[i], piece.ID)
		}
		if place := engine.Placement(); i == 0 {
			require.Greater(t, place.Held, plan.Held)
			require.LessOrEqual(t, place.Held, plan.Need)
			place.Held = plan.Held
			require.Equal(t, plan, place)
		} else {
			require.Nil(t, place)
		}
		require.NoError(t, engine.Close())
		require.Zero(t, engine.MemoryUsed())
	}
	require.Equal(t, answers[1], answers[0])
	require.Empty(t, notices, "the placement is the requested one")
}

// TestPlacementNeedsGPU checks that PlanPlacement refuses other devices.
func TestPlacementNeedsGPU(t *testing.T) {
	_, err := llmrun.PlanPlacement(t.Context(), bundled.Name, llmrun.Options{FS: bundled.FS, Device: llmrun.DeviceOptions{Name: "cpu+cpu"}})
	require.ErrorIs(t, err, llmrun.ErrOptions)
}
