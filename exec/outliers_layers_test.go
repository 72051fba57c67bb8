package exec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/calib"
)

// outlierLayer is a synthetic layer with outlier channels.
type outlierLayer struct {
	cols, rows int
	outliers   int     // outlier channels, spread evenly
	times      float64 // factor by which they are larger
	seldom     int     // in one of this many rows; 0: in all
}

// inputs returns rows of inputs.
func (l outlierLayer) inputs(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n*l.cols)
	for i := range x {
		v := rng.NormFloat64()
		if l.isOutlier(i%l.cols) && (l.seldom == 0 || i/l.cols%l.seldom == 0) {
			v *= l.times
		}
		x[i] = float32(v)
	}
	return x
}

func (l outlierLayer) isOutlier(channel int) bool {
	return l.outliers > 0 && channel%(l.cols/l.outliers) == 5 && channel/(l.cols/l.outliers) < l.outliers
}

// reference computes the matmul in float64, and the error of an ideal W8A8 that knows the
// outlier channels: it quantizes to the largest of the other channels in sample, and multiplies
// the excess in floats.
func (l outlierLayer) reference(matrix, sample, x []float32) (want []float32, err float64) {
	inlier := 0.0
	for i, v := range sample {
		if !l.isOutlier(i % l.cols) {
			inlier = max(inlier, math.Abs(float64(v)))
		}
	}
	step := inlier / 127
	var got []float32
	for row := 0; row < len(x); row += l.cols {
		for r := range l.rows {
			w := matrix[r*l.cols:][:l.cols]
			scale := 0.0
			for _, v := range w {
				scale = max(scale, math.Abs(float64(v))/127)
			}
			exact, integers, beyond := 0.0, 0.0, 0.0
			for i, v := range x[row:][:l.cols] {
				exact += float64(v) * float64(w[i])
				clipped := max(-inlier, min(inlier, float64(v)))
				integers += math.RoundToEven(clipped/step) * math.RoundToEven(float64(w[i])/scale)
				beyond += (float64(v) - clipped) * float64(w[i])
			}
			want = append(want, float32(exact))
			got = append(got, float32(integers*step*scale+beyond))
		}
	}
	return want, distance(want, got)
}

// TestOutlierLayers calibrates layers of different sizes, with different numbers, magnitudes
// and frequencies of outliers, and compares the error with that of the ideal W8A8.
func TestOutlierLayers(t *testing.T) {
	for _, l := range []outlierLayer{
		{cols: 1024, rows: 64, times: 1},
		{cols: 1024, rows: 64, outliers: 8, times: 50},
		{cols: 1024, rows: 64, outliers: 20, times: 50},
		{cols: 1024, rows: 64, outliers: 32, times: 20},
		{cols: 1024, rows: 64, outliers: 64, times: 50},
		{cols: 1024, rows: 64, outliers: 12, times: 50, seldom: 8},
		{cols: 1024, rows: 64, outliers: 60, times: 50, seldom: 4},
		{cols: 512, rows: 96, outliers: 12, times: 6},
		{cols: 512, rows: 96, outliers: 12, times: 10},
		{cols: 512, rows: 96, outliers: 12, times: 200},
		{cols: 2048, rows: 48, outliers: 15, times: 1000},
		{cols: 256, rows: 33, outliers: 1, times: 100},
		{cols: 256, rows: 33, outliers: 6, times: 50},
		{cols: 96, rows: 32, outliers: 3, times: 50},
		{cols: 64, rows: 20, outliers: 2, times: 50},
	} {
		t.Run(fmt.Sprintf("%+v", l), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(l.cols), uint64(l.outliers)))
			matrix := make([]float32, l.rows*l.cols)
			for i := range matrix {
				matrix[i] = float32(rng.NormFloat64() / math.Sqrt(float64(l.cols)))
			}
			x, sample := l.inputs(rng, 33), l.inputs(rng, 48)
			p := newLayerMatmul(t, matrix, nil, sample, l.cols, l.rows, 33)
			want, ideal := l.reference(matrix, sample, x)
			got := distance(want, p.multiply(x))
			in := &p.path.file.Inputs[0]
			t.Logf("error %.5f, of the ideal %.5f; %.2f %% of the inputs are beyond %.1f", got, ideal, 100*float64(in.Outliers)/float64(in.Elements), 127*in.Scale)
			require.Less(t, got, 1.2*ideal)
			require.Less(t, float64(in.Outliers), (calib.DefaultOutlierFraction(l.cols)+float64(l.outliers)/float64(l.cols))*float64(in.Elements))
		})
	}
}
