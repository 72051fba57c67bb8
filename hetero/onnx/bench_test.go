//go:build npu

package onnx

import (
	"errors"
	"fmt"
	"testing"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/onnx/graph"
	"github.com/llmrun/llmrun/quant"
)

// benchCases are graphs of the feed-forward input of a model with 1.5B parameters.
var benchCases = []struct {
	precision graph.Precision
	scale     float32
	streamed  bool
	inPlace   bool
}{
	{graph.WeightOnly, 0, false, false},
	{graph.WeightOnly, 0, false, true},
	{graph.Integer, 0, false, false},
	{graph.Integer, 0.05, false, false},
	{graph.Integer, 0.05, false, true},
	{graph.Integer, 0.05, true, false},
}

const benchRows, benchCols = 8960, 1536

// benchDevice opens a device with buffers for a matmul of a number of tokens.
func benchDevice(b *testing.B, o Options, tokens int) (d *Device, op hetero.Op, x, y hetero.View) {
	d, err := Open(o)
	if errors.Is(err, ErrMissing) {
		b.Skip(err)
	}
	if err != nil {
		b.Fatal(err)
	}
	pool, err := hetero.NewBufferPool(d.budget, 2, 4*tokens*benchRows, d)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := d.Close(); err != nil {
			b.Error(err)
		}
		pool.Close()
	})
	rowBytes, err := quant.Q4_0.RowBytes(benchCols)
	if err != nil {
		b.Fatal(err)
	}
	op = hetero.Op{Tokens: tokens, Rows: benchRows, Cols: benchCols, Type: quant.Q4_0, Weights: make([]byte, benchRows*rowBytes)}
	for i := range op.Weights {
		op.Weights[i] = byte(i * 7)
		if i%18 == 1 {
			op.Weights[i] = 0x2c // the upper half of a scale: 1/16 or so
		}
	}
	x, y = hetero.View{Buffer: pool.Take(), Stride: benchCols}, hetero.View{Buffer: pool.Take(), Stride: benchRows}
	for i := range x.Buffer.Floats()[:tokens*benchCols] {
		x.Buffer.Floats()[i] = float32(i%13) - 6
	}
	return d, op, x, y
}

// BenchmarkMatmul measures a prepared matmul.
func BenchmarkMatmul(b *testing.B) {
	for _, c := range benchCases {
		for _, tokens := range []int{1, 32, 256} {
			b.Run(fmt.Sprintf("%v/scale=%v/streamed=%v/inplace=%v/tokens=%d", c.precision, c.scale > 0, c.streamed, c.inPlace, tokens), func(b *testing.B) {
				d, op, x, y := benchDevice(b, Options{Precision: c.precision, InPlace: c.inPlace}, tokens)
				op.Scale, op.Streamed = c.scale, c.streamed
				k, err := d.Prepare(op)
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = k.Close() }()
				for b.Loop() {
					ticket, err := k.Submit(x, y)
					if err == nil {
						err = ticket.Wait()
					}
					if err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(2e-9*float64(tokens)*benchRows*benchCols*float64(b.N)/b.Elapsed().Seconds(), "Gop/s")
			})
		}
	}
}

// BenchmarkPrepare measures the preparation of a graph: new, or loaded from the
// cache.
func BenchmarkPrepare(b *testing.B) {
	for _, c := range benchCases {
		for _, cached := range []bool{false, true} {
			b.Run(fmt.Sprintf("%v/scale=%v/streamed=%v/inplace=%v/cached=%v", c.precision, c.scale > 0, c.streamed, c.inPlace, cached), func(b *testing.B) {
				o := Options{Precision: c.precision, InPlace: c.inPlace}
				if cached {
					o.CacheDir = b.TempDir()
				}
				d, op, _, _ := benchDevice(b, o, 256)
				op.Scale, op.Streamed = c.scale, c.streamed
				prepare := func() {
					k, err := d.Prepare(op)
					if err == nil {
						err = k.Close()
					}
					if err != nil {
						b.Fatal(err)
					}
				}
				prepare() // so that there is one to read back
				for b.Loop() {
					prepare()
				}
			})
		}
	}
}
