package split

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/calib"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/devices"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/store/w8a8"
	"github.com/llmrun/llmrun/text/token"
	"github.com/llmrun/llmrun/tiering"
)

// calibratedDemo is the demo model in integers, and tokens of a text that it was not
// calibrated with.
func calibratedDemo(t *testing.T) (f *modelfile.Files, whole *exec.W8A8, ids []int32) {
	if strings.HasPrefix(quant.Features(), "portable") {
		t.Skip("who computes what does not depend on kernels, and this takes a minute without SIMD")
	}
	f, err := modelfile.Open(vfs.OS(), filepath.Join(testutil.Root(t), "cmd", "llmrun", "bundled", "model"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	text, err := os.ReadFile(filepath.Join(testutil.Root(t), "testdata", "demo", "val_text.txt"))
	require.NoError(t, err)
	tokenizer, err := f.Tokenizer()
	require.NoError(t, err)
	ids = tokenizer.Encode(string(text), token.EncodeOptions{})
	const calibrated, read = 256, 320
	index, err := exec.MeasureOutliers(t.Context(), f, ids[:calibrated], exec.Options{Exact: true}, exec.OutlierOptions{Made: "a test"})
	require.NoError(t, err)
	fsys := vfs.NewMem()
	require.NoError(t, calib.WriteCalibration(t.Context(), f, fsys, "c", index, func(*w8a8.Input) bool { return true }, nil))
	c, err := w8a8.Open(fsys, "c")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	require.NoError(t, calib.UsePerRowInt8(f, c))
	return f, &exec.W8A8{Calibration: c, Outliers: exec.OutlierFraction(1)}, ids[calibrated:][:read]
}

// surprise is the mean negative log-likelihood of a text.
func surprise(t *testing.T, m *exec.Model, ids []int32) (nll float64) {
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, m.Extend(t.Context(), s, ids, &exec.ExtendOptions{
		Want: func(i int) bool { return i+1 < len(ids) },
		Each: func(i int, logits []float32) error {
			sum := 0.0
			for _, v := range logits {
				sum += math.Exp(float64(v))
			}
			nll += (math.Log(sum) - float64(logits[ids[i+1]])) / float64(len(ids)-1)
			return nil
		},
	}))
	return nll
}

// TestIntegersOfADevice has a device multiply all integers of the demo model's prompts,
// and the processor what lies beyond their scales: a text is as likely as with both on the
// processor.
func TestIntegersOfADevice(t *testing.T) {
	f, whole, ids := calibratedDemo(t)
	model := exec.Options{Threads: 2, Chunk: 64, W8A8: whole, Budget: tiering.New(0)}
	alone, err := exec.Load(t.Context(), f, model)
	require.NoError(t, err)
	want := surprise(t, alone, ids)
	outliers := alone.OutlierStats().Outliers
	alone.Close()
	names := []string{group()}
	if npu, err := devices.All.First(hetero.NPU); err == nil {
		names = append(names, npu)
	}
	for _, name := range names {
		m, err := Load(t.Context(), f, model, Options{Device: name, Alone: true})
		require.NoError(t, err)
		for _, d := range m.SplitStats() {
			require.True(t, d.Split.Batch == 0 || d.LastTokenOnly, "%s on %s", d.Name, name)
		}
		got := surprise(t, m, ids)
		t.Logf("perplexity %.4f on the processor and %.4f with %s", math.Exp(want), math.Exp(got), name)
		require.InEpsilon(t, want, got, 2e-3)
		require.InEpsilon(t, outliers, m.OutlierStats().Outliers, 2e-2)
		m.Close()
	}
}

// TestTrialsOfIntegersAreTheirOwn: what a trial has found is not of the same products
// without a calibration, and what cannot round to a scale is refused before anything is
// measured.
func TestTrialsOfIntegersAreTheirOwn(t *testing.T) {
	f, whole, _ := calibratedDemo(t)
	matmuls, err := weights.Matmuls(f)
	require.NoError(t, err)
	plain := trial{model: small, plan: newPlanner(t, rates{}, false)}
	scaled := plain
	scaled.model.W8A8 = whole
	require.NotEqual(t, plain.passes(matmuls), scaled.passes(matmuls))
	if gpu, err := devices.All.First(hetero.GPU); err == nil {
		o := Options{Device: gpu, Progress: func(int, int) { t.Error("something was measured") }}
		_, err = Load(t.Context(), f, scaled.model, o)
		require.ErrorIs(t, err, arch.ErrUnsupported)
		require.ErrorContains(t, err, "accepts a given scale")
	}
}
