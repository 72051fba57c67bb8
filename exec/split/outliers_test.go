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
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/store/w8a8"
	"github.com/llmrun/llmrun/text/token"
	"github.com/llmrun/llmrun/tiering"
)

// calibratedDemo returns the demo model in W8A8, and tokens of a text outside of the
// calibration.
func calibratedDemo(t *testing.T) (f *modelfile.Files, options *exec.W8A8, ids []int32) {
	if strings.HasPrefix(quant.Features(), "portable") {
		t.Skip("splits do not depend on kernels, and this takes a minute without SIMD")
	}
	f, err := modelfile.Open(vfs.OS(), hubmodel.Dir(testutil.Root(t)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	text, err := os.ReadFile(filepath.Join(testutil.Root(t), "testdata", "demo", "val_text.txt"))
	require.NoError(t, err)
	tokenizer, err := f.Tokenizer()
	require.NoError(t, err)
	ids = testutil.Must(tokenizer.Encode(string(text), token.EncodeOptions{}))
	const calibrated, read = 256, 320
	index, err := exec.MeasureOutliers(t.Context(), f, ids[:calibrated], exec.Options{Exact: true}, exec.OutlierOptions{Made: "a test"})
	require.NoError(t, err)
	fsys := vfs.NewMem()
	require.NoError(t, calib.WriteCalibration(t.Context(), f, fsys, "c", index, func(*w8a8.Input) bool { return true }, nil))
	c, err := w8a8.Open(fsys, "c")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	require.NoError(t, calib.UsePerRowInt8(t.Context(), f, c))
	return f, &exec.W8A8{Calibration: c, Outliers: exec.OutlierFraction(1)}, ids[calibrated:][:read]
}

// surprise returns the mean negative log-likelihood of a text.
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

// TestW8A8OnDevice runs all integer matmuls of the demo model's prompts on a device, and
// the outlier path on the CPU. The likelihood of a text is that of the CPU alone.
func TestW8A8OnDevice(t *testing.T) {
	f, options, ids := calibratedDemo(t)
	model := exec.Options{Threads: 2, Chunk: 64, W8A8: options, Budget: tiering.New(0)}
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
		t.Logf("perplexity %.4f on the CPU and %.4f with %s", math.Exp(want), math.Exp(got), name)
		require.InEpsilon(t, want, got, 2e-3)
		require.InEpsilon(t, outliers, m.OutlierStats().Outliers, 2e-2)
		m.Close()
	}
}

// TestW8A8TrialsAreSeparate checks that trials with and without W8A8 have different keys,
// and that a device without support for given scales is rejected before any measurement.
func TestW8A8TrialsAreSeparate(t *testing.T) {
	f, options, _ := calibratedDemo(t)
	matmuls, err := weights.Matmuls(f)
	require.NoError(t, err)
	plain := trial{model: small, plan: newPlanner(t, rates{}, false)}
	scaled := plain
	scaled.model.W8A8 = options
	require.NotEqual(t, plain.passes(matmuls), scaled.passes(matmuls))
	if gpu, err := devices.All.First(hetero.GPU); err == nil {
		o := Options{Device: gpu, Progress: func(int, int) { t.Error("unexpected measurement") }}
		_, err = Load(t.Context(), f, scaled.model, o)
		require.ErrorIs(t, err, arch.ErrUnsupported)
		require.ErrorContains(t, err, "accepts a given scale")
	}
}
