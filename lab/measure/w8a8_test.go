package measure

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestOutlierPathSavesAModelWithOutliers checks the perplexity of the bundled model with injected
// outliers. They do not change it in float32. In W8A8 they ruin it only without the outlier path.
func TestOutlierPathSavesAModelWithOutliers(t *testing.T) {
	if strings.HasPrefix(quant.Features(), "portable") {
		t.Skip("takes a minute without SIMD kernels; exec compares their results")
	}
	data, err := os.ReadFile(filepath.Join(testutil.Root(t), "testdata", "demo", "val_text.txt"))
	require.NoError(t, err)
	calibrating, scored := string(data[:3500]), string(data[6000:])
	model, dir := hubmodel.Dir(testutil.Root(t)), t.TempDir()
	injected := filepath.Join(dir, "injected")
	require.NoError(t, InjectOutliers(vfs.OS(), model, vfs.OS(), injected, Outliers{Factor: 50, Channels: 3, Every: 1}))
	ctx := context.Background()
	c, err := llmrun.Calibrate(ctx, injected, calibrating, llmrun.CalibrateOptions{Threads: 2})
	require.NoError(t, err)
	require.Equal(t, injected+llmrun.CalibrationSuffix, c.Path)
	most := c.Inputs[0]
	require.GreaterOrEqual(t, most.HotFraction, 0.8, "few channels have most of the outliers")
	require.LessOrEqual(t, most.Hot, most.Channels*3/100)

	ppl := func(path string, w *llmrun.W8A8) float64 {
		row := W8A8Row{}
		_, err := row.measure(ctx, path, llmrun.Options{Threads: 2, Memory: llmrun.MemoryOptions{KV: "f32"}, Lab: llmrun.LabOptions{W8A8: w}}, scored, 512)
		require.NoError(t, err)
		if w != nil && !w.NoOutlierPath {
			require.Positive(t, row.Use.Hot)
			require.Positive(t, row.Use.Read)
			require.Less(t, row.Use.Resident, row.Use.All/20)
		}
		return row.PPL
	}
	floats := ppl(injected, nil)
	require.InEpsilon(t, ppl(model, nil), floats, 1e-4, "the injection does not change the float model")
	without, with := ppl(injected, &llmrun.W8A8{NoOutlierPath: true}), ppl(injected, &llmrun.W8A8{})
	t.Logf("perplexity %.3f, without the outlier path %+.2f %%, with %+.2f %%", floats, 100*(without/floats-1), 100*(with/floats-1))
	require.Greater(t, without/floats, 1.1)
	require.InEpsilon(t, floats, with, 0.01)
}
