package llmrun_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/devices"
)

// calibrateDemo calibrates the demo model.
func calibrateDemo(t *testing.T, o llmrun.CalibrateOptions) llmrun.Calibration {
	t.Helper()
	o.To, o.Threads = filepath.Join(t.TempDir(), "demo.w8a8"), 2
	c, err := llmrun.Calibrate(context.Background(), demoModel, strings.Repeat("Ruby the fox ran into the forest and found a river. ", 6), o)
	require.NoError(t, err)
	return c
}

func TestCalibrateRefuses(t *testing.T) {
	ctx := context.Background()
	_, err := llmrun.Calibrate(ctx, demoModel, "", llmrun.CalibrateOptions{})
	require.ErrorIs(t, err, llmrun.ErrOptions)
	for _, o := range []llmrun.CalibrateOptions{{StoredFraction: 1.5}, {OutlierFraction: -1}, {FS: os.DirFS(".")}} {
		_, err := llmrun.Calibrate(ctx, demoModel, "a text", o)
		require.ErrorIs(t, err, llmrun.ErrOptions)
	}
	for _, o := range []llmrun.Options{
		{Lab: llmrun.LabOptions{W8A8: &llmrun.W8A8{Outliers: 2}}}, {Quantize: "q8", Lab: llmrun.LabOptions{W8A8: &llmrun.W8A8{}}}, {Exact: true, Lab: llmrun.LabOptions{W8A8: &llmrun.W8A8{}}},
	} {
		_, err := llmrun.Open(demoModel, o)
		require.ErrorIs(t, err, llmrun.ErrOptions)
	}
	trace := filepath.Join(t.TempDir(), "trace.json")
	_, err = llmrun.Open(demoModel, llmrun.Options{Lab: llmrun.LabOptions{W8A8: &llmrun.W8A8{}, Trace: trace}})
	require.ErrorContains(t, err, "llmrun calibrate writes it")
	require.NoFileExists(t, trace, "no trace without computation")

	cancelled, cancel := context.WithCancel(ctx)
	to := filepath.Join(t.TempDir(), "c")
	_, err = llmrun.Calibrate(cancelled, demoModel, "a text of some words", llmrun.CalibrateOptions{To: to, Progress: func(p llmrun.Progress) {
		if p.Done > 0 {
			cancel()
		}
	}})
	require.True(t, errors.Is(err, context.Canceled), err)
	require.NoFileExists(t, to)
}

// TestCalibrationWithFewStoredInputs stores the columns of few inputs, to which the default
// choice then limits itself.
func TestCalibrationWithFewStoredInputs(t *testing.T) {
	c := calibrateDemo(t, llmrun.CalibrateOptions{StoredFraction: 0.15})
	stored := 0
	for _, in := range c.Inputs {
		if in.Stored {
			stored++
		}
	}
	require.Equal(t, 5, stored, "of 32")
	ids := validationIDs(t)[:40]
	e := open(t, demoModel, llmrun.Options{Threads: 2, Lab: llmrun.LabOptions{W8A8: &llmrun.W8A8{Calibration: c.Path}}})
	_, err := e.Perplexity(context.Background(), ids, llmrun.PerplexityOptions{})
	require.NoError(t, err)
	require.Positive(t, e.OutlierUse().Outliers)

	files := fstest.MapFS{}
	for name, file := range overlay(t, demoModel, nil) {
		files["demo/"+name] = file
	}
	data, err := os.ReadFile(c.Path)
	require.NoError(t, err)
	files["demo"+llmrun.CalibrationSuffix] = &fstest.MapFile{Data: data}
	open(t, "demo", llmrun.Options{FS: files, Threads: 2, Lab: llmrun.LabOptions{W8A8: &llmrun.W8A8{}}})
}

// TestW8A8PrefixesAreSeparate checks that a prefix saved with other arithmetic is not used.
func TestW8A8PrefixesAreSeparate(t *testing.T) {
	if portable() {
		t.Skip("saving does not depend on kernels; the test takes 512 tokens")
	}
	c := calibrateDemo(t, llmrun.CalibrateOptions{StoredFraction: 0.15})
	ids, dir := validationIDs(t)[:580], t.TempDir()
	restored := func(w *llmrun.W8A8) int {
		e := open(t, demoModel, llmrun.Options{Threads: 2, Cache: llmrun.CacheOptions{KVDir: dir}, Memory: llmrun.MemoryOptions{KV: "k8v8"}, Lab: llmrun.LabOptions{W8A8: w}})
		s, err := e.NewSession()
		require.NoError(t, err)
		complete(t, s.GenerateIDs(context.Background(), ids, limit(1)))
		n := s.Stats().RestoredTokens
		require.NoError(t, s.Close())
		return n
	}
	require.Zero(t, restored(nil))
	require.Zero(t, restored(&llmrun.W8A8{Calibration: c.Path}))
	require.Positive(t, restored(&llmrun.W8A8{Calibration: c.Path}))
	require.Zero(t, restored(&llmrun.W8A8{Calibration: c.Path, NoOutlierPath: true}))
	require.Positive(t, restored(nil))
}

// TestSplitW8A8MatchesCPU compares the CPU with W8A8 on a split with half of the cores, and
// with an NPU if there is one. GPUs are refused, because they cannot quantize with a given
// scale.
func TestSplitW8A8MatchesCPU(t *testing.T) {
	if portable() {
		t.Skip("the split does not depend on kernels; timing it takes many passes")
	}
	c := calibrateDemo(t, llmrun.CalibrateOptions{StoredFraction: 0.15})
	score := func(device string) float64 {
		e := open(t, demoModel, llmrun.Options{Device: llmrun.DeviceOptions{Name: device}, Memory: llmrun.MemoryOptions{Chunk: 32}, Lab: llmrun.LabOptions{W8A8: &llmrun.W8A8{Calibration: c.Path}}})
		require.Equal(t, device != "", e.SplitMatmuls() != nil)
		p, err := e.Perplexity(context.Background(), validationIDs(t)[:100], llmrun.PerplexityOptions{})
		require.NoError(t, err)
		require.Positive(t, e.OutlierUse().Outliers)
		return p.PPL
	}
	want := score("")
	require.Equal(t, want, score("cpu+cpu/2"))
	if _, err := devices.All.First(hetero.NPU); err == nil {
		require.InEpsilon(t, want, score("cpu+npu"), 0.01)
	}
	refused := []string{"gpu"}
	if _, err := devices.All.First(hetero.GPU); err == nil {
		refused = append(refused, "cpu+gpu")
	}
	for _, device := range refused {
		_, err := llmrun.Open(demoModel, llmrun.Options{Device: llmrun.DeviceOptions{Name: device}, Lab: llmrun.LabOptions{W8A8: &llmrun.W8A8{Calibration: c.Path}}})
		require.ErrorContains(t, err, "W8A8")
	}
}
