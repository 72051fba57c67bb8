//go:build npu

package onnx

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/onnx/graph"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/lab/schedule"
	"github.com/llmrun/llmrun/quant"
)

// TestMatmulsAreWithinTolerance checks that every kind of graph has results within
// its tolerance and that the tolerance is not much too large.
func TestMatmulsAreWithinTolerance(t *testing.T) {
	for _, test := range []struct {
		typ       quant.Type
		precision graph.Precision
		scale     float32
		streamed  bool
	}{
		{quant.Q4_0, graph.WeightOnly, 0, false},
		{quant.Q8_0, graph.WeightOnly, 0, true},
		{quant.Q4_0, graph.Integer, 0, false},
		{quant.Q8_0, graph.Integer, 0, true},
		{quant.BF16, graph.Integer, 0, false},
		{quant.Q8_0, graph.Integer, 0.2, false}, // ±25: nothing is clipped
		{quant.Q8_0, graph.Integer, 0.2, true},
	} {
		t.Run(fmt.Sprintf("%v/%v/%v/%v", test.typ, test.precision, test.scale, test.streamed), func(t *testing.T) {
			b := newBench(t, Options{Precision: test.precision})
			x, y := b.pool.Take(), b.pool.Take()
			for _, shape := range [][3]int{{1, 48, 64}, {3, 5, 32}, {32, 64, 96}} {
				op := b.op(test.typ, shape[0], shape[1], shape[2])
				op.Scale, op.Streamed = test.scale, test.streamed
				in := hetero.View{Buffer: x, Stride: op.Cols}
				out := hetero.View{Buffer: y, Stride: op.Rows}
				b.fill(in, op.Tokens, op.Cols)
				k := b.prepare(op)
				b.run(k, in, out)
				worst := b.compare(op, k, in, out)
				require.Greater(t, worst, 0.001)
			}
		})
	}
}

// TestWeightsInPlace checks that weights that the library reads in place give the
// same results and need half the memory.
func TestWeightsInPlace(t *testing.T) {
	for _, precision := range []graph.Precision{graph.WeightOnly, graph.Integer} {
		held := map[bool]int64{}
		for _, inPlace := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/%v", precision, inPlace), func(t *testing.T) {
				b := newBench(t, Options{Precision: precision, InPlace: inPlace})
				op := b.op(quant.Q4_0, 4, 64, 64)
				x, y := hetero.View{Buffer: b.pool.Take(), Stride: 64}, hetero.View{Buffer: b.pool.Take(), Stride: 64}
				b.fill(x, 4, 64)
				k := b.prepare(op)
				b.run(k, x, y)
				b.compare(op, k, x, y)
				held[inPlace] = k.Bytes()
			})
		}
		require.Equal(t, held[false], 2*held[true])
	}
}

// TestFixedScaleClips checks that inputs beyond 127 steps of a fixed scale are
// clipped; the caller adds the difference.
func TestFixedScaleClips(t *testing.T) {
	b := newBench(t, Options{Precision: graph.Integer})
	op := b.op(quant.Q8_0, 1, 8, 32)
	op.Scale = 0.01
	x, y := hetero.View{Buffer: b.pool.Take(), Stride: 32}, hetero.View{Buffer: b.pool.Take(), Stride: 8}
	b.fill(x, 1, 32)
	x.Row(0, 32)[7], x.Row(0, 32)[8] = 1000, -1000
	k := b.prepare(op)
	b.run(k, x, y)
	for i, v := range x.Row(0, 32) {
		x.Row(0, 32)[i] = float32(math.Max(-1.27, math.Min(1.27, float64(v))))
	}
	b.compare(op, k, x, y)
}

// TestRowsKeepTheirScales compares weights with a scale per row and activations with
// a fixed scale with the caller's outlier path: both use the same codes, so that the
// results differ only in the last bits.
func TestRowsKeepTheirScales(t *testing.T) {
	for _, streamed := range []bool{false, true} {
		b := newBench(t, Options{})
		const rows, cols = 40, 96
		op := b.op(quant.Q8_0, 3, rows, cols)
		op.Scale, op.Streamed = 0.03, streamed
		rowBytes := len(op.Weights) / rows
		row := make([]float32, cols)
		for r := range rows {
			at := op.Weights[r*rowBytes:][:rowBytes]
			quant.DequantRow(op.Type, row, at)
			for i := range row {
				row[i] *= float32(1 + r)
			}
			require.NoError(t, quant.QuantizeRowPerRow(at, row))
		}
		x, y := hetero.View{Buffer: b.pool.Take(), Stride: cols}, hetero.View{Buffer: b.pool.Take(), Stride: rows}
		b.fill(x, 3, cols)
		x.Row(1, cols)[7], x.Row(2, cols)[8] = 1000, -1000
		b.run(b.prepare(op), x, y)
		for r := range rows {
			quant.DequantRow(op.Type, row, op.Weights[r*rowBytes:][:rowBytes])
			for token := range op.Tokens {
				want, sizes := 0.0, 0.0
				for i, v := range x.Row(token, cols) {
					code := math.RoundToEven(math.Max(-127, math.Min(127, float64(v/op.Scale))))
					want += code * float64(op.Scale) * float64(row[i])
					sizes += math.Abs(code * float64(op.Scale) * float64(row[i]))
				}
				require.InDelta(t, want, y.Row(token, rows)[r], 1e-6*sizes, "token %d, row %d", token, r)
			}
		}
	}
}

// TestViewsWithGaps checks views with a stride and the order of kernels on one
// device.
func TestViewsWithGaps(t *testing.T) {
	b := newBench(t, Options{})
	op := b.op(quant.Q4_0, 4, 32, 64)
	first := hetero.View{Buffer: b.pool.Take(), Offset: 16, Stride: 100}
	between := hetero.View{Buffer: b.pool.Take(), Offset: 3, Stride: 64}
	last := hetero.View{Buffer: b.pool.Take(), Offset: 5, Stride: 80}
	b.fill(first, 4, 64)
	wide := b.op(quant.Q4_0, 4, 64, 64)
	k1, k2 := b.prepare(wide), b.prepare(op)
	const untouched = 77
	last.Row(0, 80)[70] = untouched
	_, err := k1.Submit(first, between)
	require.NoError(t, err)
	ticket, err := k2.Submit(between, last)
	require.NoError(t, err)
	require.NoError(t, ticket.Wait())
	b.compare(wide, k1, first, between)
	b.compare(op, k2, between, last)
	require.EqualValues(t, untouched, last.Row(0, 80)[70])
	require.EqualValues(t, 4*(4*64+4*32), b.Stats().Gathered)

	for want, v := range map[string]hetero.View{
		"exceeds its buffer": {Buffer: last.Buffer, Offset: 1 << 14, Stride: 64},
		"not attached":       {Buffer: &hetero.Buffer{}, Stride: 64},
	} {
		_, err := k2.Submit(v, last)
		require.ErrorContains(t, err, want)
	}
}

// TestChunksShareGraphs checks that a prompt of any number of chunks uses the graphs
// of one chunk, and that graphs of several lengths share one copy of the weights.
func TestChunksShareGraphs(t *testing.T) {
	b := newBench(t, Options{})
	up, down := b.op(quant.Q4_0, 8, 64, 32), b.op(quant.Q4_0, 8, 32, 64)
	for chunk := range 10 {
		b.prepare(up)
		// Equal weights at another address count as the same.
		again := down
		again.Weights = append([]byte(nil), down.Weights...)
		b.prepare(again)
		stats := b.Stats()
		require.Equal(t, 2*(chunk+1), stats.Kernels)
		require.Equal(t, 2, stats.Graphs)
		require.Equal(t, 2, stats.Built)
	}
	weights := b.Stats().Weights
	size, err := graph.Size(up, graph.Auto)
	require.NoError(t, err)
	require.Equal(t, 2*size, weights, "both graphs have the same weights")
	up.Tokens = 1
	b.prepare(up)
	require.Equal(t, 3, b.Stats().Graphs)
	require.Equal(t, weights, b.Stats().Weights)
}

// TestMemoryLimit checks that a matmul beyond the memory limit is refused with an
// error and that closed kernels release memory.
func TestMemoryLimit(t *testing.T) {
	const limit = 3<<16 + 40_000 // the buffers, and some
	b := newBench(t, Options{Memory: limit})
	op := b.op(quant.Q4_0, 4, 128, 128) // 10 KiB of codes and scales, twice
	k, err := b.Prepare(op)
	require.NoError(t, err)
	other := b.op(quant.Q4_0, 4, 128, 128)
	_, err = b.Prepare(other)
	var beyond *hetero.MemoryError
	require.ErrorAs(t, err, &beyond)
	require.EqualValues(t, limit, beyond.Limit)
	require.ErrorContains(t, err, "CPUExecutionProvider")
	require.LessOrEqual(t, b.Stats().Held, int64(limit))
	require.Equal(t, 1, b.Stats().Graphs)

	bytes := k.Bytes()
	require.NoError(t, k.Close())
	b.prepare(other)

	// The limit admits the matmuls with the most operations per byte.
	layer := []schedule.Graph{
		{Name: "attention output", Weights: bytes / 2, Work: 1, Buffers: func(int) int64 { return bytes / 2 }},
		{Name: "feed-forward", Weights: bytes, Work: 2, Buffers: func(int) int64 { return 0 }},
	}
	require.Equal(t, []int{0, 1}, schedule.Place(layer, 4, beyond.Limit-3<<16))
}

// TestSteadyStateAllocatesNothing checks that repeated submissions allocate nothing.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	b := newBench(t, Options{})
	op := b.op(quant.Q4_0, 4, 64, 64)
	k := b.prepare(op)
	x, y := hetero.View{Buffer: b.pool.Take(), Stride: 64}, hetero.View{Buffer: b.pool.Take(), Stride: 64}
	b.fill(x, 4, 64)
	allocated := testutil.AllocsPerRun(50, 0, func() {
		ticket, err := k.Submit(x, y)
		if err != nil {
			t.Fatal(err)
		}
		if err := ticket.Wait(); err != nil {
			t.Fatal(err)
		}
	})
	require.Zero(t, allocated)
}

// TestRefusedGraphs checks that a graph that the provider refuses holds no memory,
// whichever step fails.
func TestRefusedGraphs(t *testing.T) {
	b := newBench(t, Options{})
	op := b.op(quant.Q4_0, 1, 32, 32)
	b.provider = "Abacus" + providerSuffix // which the library does not know
	_, err := b.Prepare(op)
	require.ErrorContains(t, err, "Abacus")
	b.provider = cpuProvider
	_, err = b.library.newSession([]byte("no graph"), nil, b.sessionOptions())
	require.Error(t, err)
	w, err := graph.Pack(b.budget, op, graph.WeightOnly)
	require.NoError(t, err)
	defer w.Free()
	file := graph.Matmul(op, w)
	w.Tensors[0].Name = "another"
	_, err = b.library.newSession(file, w.Tensors, b.sessionOptions())
	require.Error(t, err)
	require.Zero(t, b.Stats().Graphs)
	require.Zero(t, b.Stats().Weights)
}

func TestUseAfterClose(t *testing.T) {
	b := newBench(t, Options{})
	op := b.op(quant.Q4_0, 1, 32, 32)
	k, err := b.Prepare(op)
	require.NoError(t, err)
	require.ErrorContains(t, b.Device.Close(), "1 kernels")
	require.NoError(t, k.Close())
	require.Error(t, k.Close())
	_, err = k.Submit(hetero.View{}, hetero.View{})
	require.ErrorIs(t, err, errClosed)
	op.Rows = 0
	_, err = b.Prepare(op)
	require.ErrorContains(t, err, "0")
}
