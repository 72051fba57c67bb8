//go:build npu

package onnx

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

// bench is a device with a few buffers. At the end of the test it checks for leaked
// memory and goroutines.
type bench struct {
	*Device
	t    *testing.T
	pool *hetero.BufferPool
	rng  *rand.Rand
}

// newBench opens a device and skips the test if there is no library.
func newBench(t *testing.T, o Options) *bench {
	t.Helper()
	goroutines := testutil.NoGoroutinesLeft(t)
	o.Budget = tiering.New(0)
	d, err := Open(o)
	if errors.Is(err, ErrMissing) {
		t.Skip(err)
	}
	require.NoError(t, err)
	pool, err := hetero.NewBufferPool(o.Budget, 3, 1<<16, d)
	require.NoError(t, err)
	b := &bench{Device: d, t: t, pool: pool, rng: rand.New(rand.NewPCG(3, 0))}
	t.Cleanup(func() {
		require.NoError(t, d.Close())
		require.Equal(t, int64(3<<16), d.Stats().Held, "only the buffers are held")
		pool.Close()
		require.NoError(t, o.Budget.Check())
		goroutines()
	})
	return b
}

// op returns a matmul with random weights.
func (b *bench) op(typ quant.Type, tokens, rows, cols int) hetero.Op {
	rowBytes, err := typ.RowBytes(cols)
	require.NoError(b.t, err)
	op := hetero.Op{Tokens: tokens, Rows: rows, Cols: cols, Type: typ, Weights: make([]byte, rows*rowBytes)}
	row := make([]float32, cols)
	for r := range rows {
		for i := range row {
			row[i] = float32(b.rng.NormFloat64())
		}
		require.NoError(b.t, quant.QuantizeRow(typ, op.Weights[r*rowBytes:][:rowBytes], row, nil))
	}
	return op
}

// prepare prepares a matmul until the end of the test.
func (b *bench) prepare(op hetero.Op) hetero.Kernel {
	b.t.Helper()
	k, err := b.Prepare(op)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { require.NoError(b.t, k.Close()) })
	return k
}

// fill sets a matrix to random numbers with one magnitude per row.
func (b *bench) fill(v hetero.View, rows, cols int) {
	for r := range rows {
		size := math.Exp(b.rng.NormFloat64())
		for i := range v.Row(r, cols) {
			v.Row(r, cols)[i] = float32(size * b.rng.NormFloat64())
		}
	}
}

// run runs a matmul and waits for it.
func (b *bench) run(k hetero.Kernel, x, y hetero.View) {
	b.t.Helper()
	ticket, err := k.Submit(x, y)
	require.NoError(b.t, err)
	require.NoError(b.t, ticket.Wait())
	require.True(b.t, ticket.Done())
}

// compare compares a result with arithmetic in float64 and returns the largest error
// as a fraction of the kernel's tolerance. The tolerance covers the worst case, and
// rounding errors have no direction: therefore the results must also have no common
// factor.
func (b *bench) compare(op hetero.Op, k hetero.Kernel, x, y hetero.View) (worst float64) {
	b.t.Helper()
	rowBytes, err := op.Type.RowBytes(op.Cols)
	require.NoError(b.t, err)
	row := make([]float32, op.Cols)
	alike, size := 0.0, 0.0
	for r := range op.Rows {
		quant.DequantRow(op.Type, row, op.Weights[r*rowBytes:][:rowBytes])
		for t := range op.Tokens {
			want, sum, largest := 0.0, 0.0, 127*float64(op.Scale)
			for i, v := range x.Row(t, op.Cols) {
				want += float64(v) * float64(row[i])
				sum += math.Abs(float64(row[i]))
				largest = max(largest, math.Abs(float64(v)))
			}
			got := float64(y.Row(t, op.Rows)[r])
			fraction := math.Abs(got-want) / (k.Tolerance() * largest * sum)
			require.LessOrEqual(b.t, fraction, 1.0, "y[%d,%d] is %g, not %g", t, r, got, want)
			worst = max(worst, fraction)
			alike, size = alike+got*want, size+want*want
		}
	}
	require.InDelta(b.t, 1, alike/size, 0.02, "common factor of the results")
	return worst
}
