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
)

func TestDevicesThatAreRefused(t *testing.T) {
	for _, o := range []llmrun.Options{
		{Device: "tpu"},
		{Device: "gpux"},
		{Device: "gpu", KV: "f32"},
		{Device: "gpu", KVSelect: "auto"},
		{Device: "gpu:any", WatchPressure: true},
		{Device: "gpu", KVRAM: 1 << 20},
		{Device: "gpu", Pin: "anon"},
		{Device: "gpu", Pin: "file"},
		{Trace: "trace"},
		{Device: "cpu", Trace: "trace"},
	} {
		o.FS = bundled.FS
		_, err := llmrun.Open(bundled.Name, o)
		require.ErrorIs(t, err, llmrun.ErrOptions, "%+v", o)
	}
}

// TestGPUAnswersAsTheCPU asks both: the demo model is rarely undecided. Where there
// is no GPU, the error says what is missing.
func TestGPUAnswersAsTheCPU(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.json")
	options := llmrun.Options{FS: bundled.FS, Device: "gpu", Context: 256, Trace: path}
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
		if i == 0 {
			require.ErrorIs(t, session.Save("x"), llmrun.ErrOptions, "nothing of a GPU is kept")
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
	require.GreaterOrEqual(t, count["attend_one"], 11*layers)
	require.GreaterOrEqual(t, count["attend_many"], layers)
	require.GreaterOrEqual(t, count["wait"], 12)
}
