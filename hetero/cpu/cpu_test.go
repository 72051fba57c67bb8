package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

// bench is a device with buffers, which are checked for leaks at the end of the test.
type bench struct {
	*Device
	x, y hetero.View
	rng  *rand.Rand
}

func newBench(t *testing.T, o Options, floats int) *bench {
	noneLeft := testutil.NoGoroutinesLeft(t)
	o.Budget = tiering.New(0)
	d, err := New(o)
	require.NoError(t, err)
	pool, err := hetero.NewBufferPool(o.Budget, 2, 4*floats, d)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, d.Close())
		require.NoError(t, d.Close(), "allowed")
		pool.Close()
		require.NoError(t, o.Budget.Check())
		noneLeft()
	})
	return &bench{d, hetero.View{Buffer: pool.Take()}, hetero.View{Buffer: pool.Take()}, rand.New(rand.NewPCG(1, 2))}
}

// weigh sets random weights and returns them as numbers.
func (b *bench) weigh(t *testing.T, op *hetero.Op) []float32 {
	rowBytes, err := op.Type.RowBytes(op.Cols)
	require.NoError(t, err)
	op.Weights = make([]byte, op.Rows*rowBytes)
	numbers := make([]float32, op.Rows*op.Cols)
	for i := range numbers {
		numbers[i] = float32(b.rng.NormFloat64())
	}
	for r := range op.Rows {
		row, to := numbers[r*op.Cols:][:op.Cols], op.Weights[r*rowBytes:][:rowBytes]
		if quant.CanQuantize(op.Type) {
			require.NoError(t, quant.QuantizeRow(op.Type, to, row, nil))
		} else {
			for i := range to { // scales of these bytes are neither tiny nor infinite
				to[i] = byte(0x20 + b.rng.IntN(0x1b))
			}
		}
		quant.DequantRow(op.Type, row, to)
	}
	return numbers
}

// do prepares, runs and closes a matmul.
func (b *bench) do(t *testing.T, op hetero.Op) (tolerance float64) {
	k, err := b.Prepare(op)
	require.NoError(t, err)
	ticket, err := k.Submit(b.x, b.y)
	require.NoError(t, err)
	require.NoError(t, ticket.Wait())
	require.True(t, ticket.Done())
	require.NoError(t, k.Close())
	return k.Tolerance()
}

// check compares a matmul with one in float64, and the bytes around the result with
// their previous contents.
func (b *bench) check(t *testing.T, op hetero.Op, weights []float32, tolerance float64) {
	for tok := range op.Tokens {
		x := b.x.Row(tok, op.Cols)
		largest := 0.0
		for _, v := range x {
			largest = max(largest, math.Abs(float64(v)))
		}
		for r := range op.Rows {
			sum, sums := 0.0, 0.0
			for i, w := range weights[r*op.Cols:][:op.Cols] {
				sum += float64(w) * float64(x[i])
				sums += math.Abs(float64(w))
			}
			require.InDelta(t, sum, b.y.Row(tok, op.Rows)[r], tolerance*largest*sums, "y[%d,%d]", tok, r)
		}
		for i := tok*b.y.Stride + op.Rows; i < (tok+1)*b.y.Stride; i++ {
			require.True(t, math.IsNaN(float64(b.y.Buffer.Floats()[b.y.Offset+i])), "beside row %d", tok)
		}
	}
}

// TestMatmuls tests every type of weights, views at offsets in their buffers, groups
// of threads and slow devices. Results must be within the tolerance, and no other
// byte may be written.
func TestMatmuls(t *testing.T) {
	for _, o := range []Options{{Threads: 1}, {Threads: 2}, {Threads: 1, Slow: 3}} {
		b := newBench(t, o, 40*500)
		for _, typ := range []quant.Type{quant.F32, quant.F16, quant.BF16, quant.Q4_0, quant.Q4_1, quant.Q8_0, quant.Q4_K, quant.Q6_K} {
			for _, tokens := range []int{1, 3, 20} {
				for _, gap := range []int{0, 5} {
					op := hetero.Op{Tokens: tokens, Rows: 37, Cols: 256, Type: typ}
					b.x.Stride, b.x.Offset = op.Cols+gap, gap
					b.y.Stride, b.y.Offset = op.Rows+gap, 2*gap
					for i := range b.x.Buffer.Floats() {
						b.x.Buffer.Floats()[i] = float32(b.rng.NormFloat64())
						b.y.Buffer.Floats()[i] = float32(math.NaN())
					}
					t.Run(fmt.Sprintf("%v/%v/%d/%d", o, typ, tokens, gap), func(t *testing.T) {
						weights := b.weigh(t, &op)
						b.check(t, op, weights, b.do(t, op))
					})
				}
			}
		}
	}
}

// TestScaleClips checks that inputs are quantized to 127 steps of a fixed scale and
// clipped beyond.
func TestScaleClips(t *testing.T) {
	b := newBench(t, Options{Threads: 2}, 3*64)
	op := hetero.Op{Tokens: 3, Rows: 5, Cols: 64, Type: quant.Q8_0, Scale: 0.01}
	weights := b.weigh(t, &op)
	b.x.Stride, b.y.Stride = op.Cols, op.Rows
	for i := range b.x.Buffer.Floats()[:op.Tokens*op.Cols] {
		b.x.Buffer.Floats()[i] = float32(b.rng.NormFloat64())
	}
	b.x.Row(1, op.Cols)[7] = -1000
	b.do(t, op)
	for i, v := range b.x.Buffer.Floats()[:op.Tokens*op.Cols] {
		code := math.RoundToEven(max(-127, min(127, float64(v)*100)))
		b.x.Buffer.Floats()[i] = float32(code) / 100
	}
	b.check(t, op, weights, 1e-6)
}

// TestToleranceIsTight checks that quantization can use a large part of the stated
// tolerance.
func TestToleranceIsTight(t *testing.T) {
	b := newBench(t, Options{Threads: 1}, 64)
	op := hetero.Op{Tokens: 1, Rows: 1, Cols: 32, Type: quant.Q8_0}
	weights := b.weigh(t, &op)
	b.x.Stride, b.y.Stride = op.Cols, op.Rows
	x := b.x.Row(0, op.Cols)
	sums, want := 0.0, 0.0
	for i, w := range weights {
		// Every input has the maximum rounding error against the sign of the sum.
		x[i] = float32(math.Copysign(100.499/127, float64(w)))
		if i == 0 {
			x[i] = float32(math.Copysign(1, float64(w)))
		}
		sums += math.Abs(float64(w))
		want += float64(w) * float64(x[i])
	}
	tolerance := b.do(t, op)
	require.Greater(t, math.Abs(float64(b.y.Row(0, 1)[0])-want), 0.8*tolerance*sums)
}

// TestQueueIsInOrder checks that matmuls run in the order of submission: each uses
// the result of the previous one.
func TestQueueIsInOrder(t *testing.T) {
	const n = 3 * queueLength
	b := newBench(t, Options{Threads: 2}, 64)
	op := hetero.Op{Tokens: 1, Rows: 32, Cols: 32, Type: quant.F32, Weights: make([]byte, 4*32*32)}
	for r := range 32 { // a rotation by one place
		copy(op.Weights[4*(32*r+(r+1)%32):], []byte{0, 0, 0x80, 0x3f})
	}
	b.x.Stride, b.y.Stride = 32, 32
	for i := range 32 {
		b.x.Row(0, 32)[i] = float32(i)
	}
	k, err := b.Prepare(op)
	require.NoError(t, err)
	var last hetero.Ticket
	from, to := b.x, b.y
	for range n {
		last, err = k.Submit(from, to)
		require.NoError(t, err)
		from, to = to, from
	}
	require.NoError(t, hetero.Await(b.Clock(), last, b.Clock().Now(), time.Millisecond))
	require.EqualValues(t, n%32, from.Row(0, 1)[0])
	require.NoError(t, k.Close())
}

// TestWeightsAreTiledOnce checks that kernels of the same weights share the tiles and
// that the last one frees them.
func TestWeightsAreTiledOnce(t *testing.T) {
	b := newBench(t, Options{Threads: 1}, 1<<14)
	op := hetero.Op{Tokens: 1, Rows: 64, Cols: 256, Type: quant.Q4_0}
	b.weigh(t, &op)
	pinned := func() int64 { return b.budget.Usage().By[tiering.Pinned] }
	one, err := b.Prepare(op)
	require.NoError(t, err)
	once := pinned()
	require.Positive(t, once)
	op.Tokens = 32
	many, err := b.Prepare(op)
	require.NoError(t, err)
	require.Equal(t, once, pinned())
	require.Equal(t, one.Bytes(), many.Bytes())
	require.NoError(t, one.Close())
	require.Equal(t, once, pinned())
	require.ErrorContains(t, b.Device.Close(), "1 kernels")
	require.NoError(t, many.Close())
	require.ErrorIs(t, many.Close(), errKernelClosed)
	require.Zero(t, pinned())
}

// TestWeightsInReusedMemory prepares weights from memory that held other weights
// before, like a loader that reads one matrix after the other, and multiplies fewer
// tokens than the kernel is prepared for.
func TestWeightsInReusedMemory(t *testing.T) {
	b := newBench(t, Options{Threads: 1}, 1<<12)
	op := hetero.Op{Tokens: 4, Rows: 32, Cols: 256, Type: quant.Q4_0}
	b.x.Stride, b.y.Stride = op.Cols, op.Rows
	for i := range b.x.Buffer.Floats() {
		b.x.Buffer.Floats()[i] = float32(b.rng.NormFloat64())
	}
	var memory []byte
	var kernels []hetero.Kernel
	var numbers [][]float32
	for range 2 {
		numbers = append(numbers, b.weigh(t, &op))
		if memory == nil {
			memory = make([]byte, len(op.Weights))
		}
		copy(memory, op.Weights)
		op.Weights = memory
		k, err := b.Prepare(op)
		require.NoError(t, err)
		kernels = append(kernels, k)
	}
	for i, k := range kernels {
		some := op
		some.Tokens = 3
		clear(b.y.Buffer.Floats())
		ticket, err := k.(hetero.Elastic).SubmitSome(some.Tokens, b.x, b.y)
		require.NoError(t, err)
		require.NoError(t, ticket.Wait())
		b.check(t, some, numbers[i], k.Tolerance())
		require.Zero(t, b.y.Row(3, 1)[0], "not requested")
		for _, tokens := range []int{0, 5} {
			_, err = k.(hetero.Elastic).SubmitSome(tokens, b.x, b.y)
			require.ErrorContains(t, err, "tokens, but the kernel is prepared for 4")
		}
	}
	for _, k := range kernels {
		require.NoError(t, k.Close())
	}
}

func TestRefusals(t *testing.T) {
	_, err := New(Options{Threads: -1})
	require.ErrorContains(t, err, "-1 threads")

	b := newBench(t, Options{Threads: 1}, 64)
	op := hetero.Op{Tokens: 1, Rows: 4, Cols: 32, Type: quant.Q8_0}
	_, err = b.Prepare(op)
	require.ErrorContains(t, err, "0 bytes of weights for 4 rows of 34")
	op.Rows = 0
	_, err = b.Prepare(op)
	require.ErrorContains(t, err, "1 × 0 × 32")
	op.Rows, op.Tokens = 4, 2
	b.weigh(t, &op)
	k, err := b.Prepare(op)
	require.NoError(t, err)
	b.x.Stride, b.y.Stride = 32, 4
	_, err = k.Submit(hetero.View{Buffer: &hetero.Buffer{}, Stride: 32}, b.y)
	require.ErrorContains(t, err, "not attached")
	end := len(b.x.Buffer.Floats())
	_, err = k.Submit(hetero.View{Buffer: b.x.Buffer, Offset: end - 63, Stride: 32}, b.y)
	require.ErrorContains(t, err, "exceed their buffers")
	_, err = k.Submit(b.x, hetero.View{Buffer: b.y.Buffer, Stride: 3})
	require.ErrorContains(t, err, "exceed their buffers")
	require.NoError(t, k.Close())
	_, err = k.Submit(b.x, b.y)
	require.ErrorIs(t, err, errKernelClosed)
	require.NoError(t, b.Device.Close())
	_, err = b.Prepare(op)
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, b.Attach(b.x.Buffer), ErrClosed)
}

// TestBoundThreads checks that pinned threads give the same results and that the
// device's name lists the processors.
func TestBoundThreads(t *testing.T) {
	fast, _ := threadpool.CoreGroups()
	if len(fast) == 0 {
		t.Skipf("%s does not report its processors", runtime.GOOS)
	}
	b := newBench(t, Options{Cores: fast[:1], Slow: 2}, 1<<12)
	require.Contains(t, b.Capabilities().Name, fmt.Sprintf("1 thread on processors [%d], made 2 times slower", fast[0]))
	op := hetero.Op{Tokens: 2, Rows: 16, Cols: 64, Type: quant.Q8_0}
	weights := b.weigh(t, &op)
	b.x.Stride, b.y.Stride = op.Cols, op.Rows
	for i := range b.x.Buffer.Floats() {
		b.x.Buffer.Floats()[i] = float32(b.rng.NormFloat64())
	}
	b.check(t, op, weights, b.do(t, op))
}
