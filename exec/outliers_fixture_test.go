package exec

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/calib"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/store/w8a8"
	"github.com/llmrun/llmrun/tiering"
)

// layerMatmul is one matrix in 8 bits with a calibration, and a pass that multiplies with it.
type layerMatmul struct {
	w    *weights.Linear
	path *outlierPath
	q    *matmulQueue
}

// newLayerMatmul quantizes a matrix and calibrates it with rows of inputs.
func newLayerMatmul(t *testing.T, matrix, bias, inputs []float32, cols, rows, chunk int) *layerMatmul {
	t.Helper()
	sizes := &calib.InputMagnitudes{Name: "m", OutlierCounts: make([]int64, cols), Matrices: []w8a8.Matrix{{Name: "m", Rows: rows, Type: "F32", ColumnsAt: w8a8.WriteColumns}}}
	each := func(do func([]float32)) {
		for at := 0; at < len(inputs); at += cols {
			do(inputs[at : at+cols])
		}
	}
	each(sizes.Observe)
	sizes.ChooseScale(0)
	each(sizes.CountOutliers)
	in, err := sizes.Input()
	require.NoError(t, err)
	fsys := vfs.NewMem()
	require.NoError(t, w8a8.Write(fsys, "c", &w8a8.Index{Inputs: []w8a8.Input{in}}, func(_ *w8a8.Input, _ *w8a8.Matrix, first, count int, dst []float32) error {
		for c := range count {
			for r := range rows {
				dst[c*rows+r] = matrix[r*cols+first+c]
			}
		}
		return nil
	}))
	file, err := w8a8.Open(fsys, "c")
	require.NoError(t, err)

	size, err := quant.Q8_0.RowBytes(cols)
	require.NoError(t, err)
	stored := make([]byte, rows*size)
	for r := range rows {
		require.NoError(t, quant.QuantizeRowPerRow(stored[r*size:], matrix[r*cols:(r+1)*cols]))
	}
	bytes, err := tiled.Bytes(quant.Q8_0, rows, cols)
	require.NoError(t, err)
	m := &Model{Spec: &arch.Spec{Dim: 1}, weights: &weights.Weights{Layers: make([]weights.LayerWeights, 1)}, workers: threadpool.New(2), budget: tiering.New(0)}
	w := &m.weights.Layers[0].O
	*w = weights.Linear{Matrix: weights.Matrix{Type: quant.Q8_0, Rows: rows, Cols: cols, Tiled: true, Data: make([]byte, bytes)}, Bias: bias}
	tiled.Pack(w.Data, quant.Q8_0, stored, rows, cols)

	l := &layerMatmul{w: w, path: &outlierPath{m: m, file: file}}
	columns, err := l.path.addColumns(&file.Inputs[0], &file.Inputs[0].Matrices[0])
	require.NoError(t, err)
	w.PerTensor = &weights.PerTensorInput{Scale: file.Inputs[0].Scale, Limit: weights.MagnitudeBits(weights.OutlierLimit(file.Inputs[0].Scale)), Outliers: columns, Spans: weights.SpanNames{Integers: "integers", Outliers: "shadow"}}
	s := &passState{m: m, chunk: chunk, ctx: context.Background(), workers: make([]workspace, 2)}
	q := &matmulQueue{passState: s, matmuls: make([]matmul, 0, 4), inputs: make([]matmulInput, 0, 4)}
	for i := range s.workers {
		s.workers[i].tiles = tiled.NewScratch(chunk)
	}
	q.quantized = make([]float32, tiled.FloatsNeeded(cols, chunk))
	s.makeParts()
	q.makeParts()
	m.outliers = l.path
	q.addOutlierPath()
	m.weights.Layers[0].MLP.Up.Rows = rows // so that the pass reserves a sum for each row of the matrix
	var probe tiering.Arena
	q.outliers.carve(&probe)
	frame, err := tiering.Alloc(m.budget, tiering.Scratch, probe.Need())
	require.NoError(t, err)
	arena := tiering.NewArena(frame)
	q.outliers.carve(arena)
	require.NoError(t, arena.Err())
	t.Cleanup(func() {
		frame.Free()
		l.path.close()
		m.workers.Close()
		require.NoError(t, file.Close())
		require.NoError(t, m.budget.Check())
	})
	l.q = q
	return l
}

// multiply returns the matmul of rows of inputs.
func (l *layerMatmul) multiply(x []float32) []float32 {
	n := len(x) / l.w.Cols
	y := make([]float32, n*l.w.Rows)
	l.q.n = n
	l.q.queue(l.w, x, n, y)
	l.q.run()
	return y
}

// TestOutlierFixture compares results and errors with those of another program, for a layer with
// three channels that are always large and one that is large once.
func TestOutlierFixture(t *testing.T) {
	dir := testutil.Shared(t, "fixtures", "w8a8_outlier")
	var meta struct {
		In, Out         int
		OutlierChannels []int                      `json:"outlier_channels"`
		ColdOutlier     struct{ Row, Channel int } `json:"cold_outlier"`
		Error           map[string]float64         `json:"rel_l2_error"`
	}
	testutil.ReadJSON(t, dir+"/meta.json", &meta)
	src, err := safetensors.Open(vfs.OS(), dir+"/tensors.safetensors")
	require.NoError(t, err)
	defer src.Close()
	l := newLayerMatmul(t, modeltest.WholeTensor(t, src, "weight"), modeltest.WholeTensor(t, src, "bias"), modeltest.WholeTensor(t, src, "x_calib"), meta.In, meta.Out, 16)
	x, want := modeltest.WholeTensor(t, src, "x_test"), modeltest.WholeTensor(t, src, "y_test")

	hot := map[int]bool{}
	for _, c := range l.path.file.Inputs[0].Channels[:l.path.file.Inputs[0].Hot] {
		hot[c.Channel] = true
	}
	for _, channel := range meta.OutlierChannels {
		require.True(t, hot[channel], "channel %d", channel)
	}
	require.False(t, hot[meta.ColdOutlier.Channel])

	withPath := distance(want, l.multiply(x))
	t.Logf("with an outlier path %.5f, the fixture has %.5f", withPath, meta.Error["clipped_plus_float_shadow"])
	require.Less(t, withPath, 1.2*meta.Error["clipped_plus_float_shadow"])
	stats := l.path.stats
	require.Positive(t, stats.Fetched, "the column of the channel that is large once came from the file")
	require.Equal(t, stats.Fetched*l.path.file.Inputs[0].Matrices[0].ColumnBytes(), stats.Read)

	l.w.PerTensor.Outliers = nil
	clipped := distance(want, l.multiply(x))
	t.Logf("clipped %.5f, the fixture has %.5f", clipped, meta.Error["clipped_without_shadow"])
	require.InEpsilon(t, meta.Error["clipped_without_shadow"], clipped, 0.05)
	l.w.PerTensor.Scale = l.path.file.Inputs[0].Max / 127
	naive := distance(want, l.multiply(x))
	t.Logf("without clipping %.5f, the fixture has %.5f", naive, meta.Error["naive_per_tensor_w8a8"])
	require.InEpsilon(t, meta.Error["naive_per_tensor_w8a8"], naive, 0.2)
}
