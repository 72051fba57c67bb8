package opencl

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

// need fails a test that requires a device, or skips it if the error reports that
// there is none.
func need(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, ErrNotBuilt) || errors.Is(err, ErrNoDriver) {
		t.Skip(err)
	}
	require.NoError(t, err)
}

// open opens the first device and checks at the end of the test that all memory was
// released.
func open(t testing.TB) (*Device, *tiering.Budget) {
	t.Helper()
	budget := tiering.New(0)
	d, err := OpenDevice(Options{Budget: budget})
	need(t, err)
	if os.Getenv(ArithmeticVariable) == "" {
		d.context.Arithmetic = Floats // others have tests of their own
	}
	t.Cleanup(func() {
		require.NoError(t, d.Close())
		require.NoError(t, budget.Check())
	})
	return d, budget
}

// floats creates a buffer with the given numbers.
func floats(t testing.TB, c *Context, values []float32) *Memory {
	t.Helper()
	m, err := c.Alloc(tiering.Shared, 4*len(values))
	require.NoError(t, err)
	require.NoError(t, m.WriteFloats(0, values))
	return m
}

// randoms returns n random numbers.
func randoms(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

func TestListNamesDevices(t *testing.T) {
	list, err := List()
	need(t, err)
	for i, info := range list {
		require.Equal(t, i, info.Index)
		require.NotEmpty(t, info.Name)
		require.Positive(t, info.Memory)
		require.Positive(t, info.ComputeUnits)
		t.Logf("%+v", info)
	}
	_, err = Open(Options{Device: "no such thing"})
	require.ErrorIs(t, err, ErrNoDevice)
	require.ErrorContains(t, err, list[0].Name)
}

func TestErrorsHaveNames(t *testing.T) {
	d, _ := open(t)
	_, err := d.context.Kernel("probe.cl", "", "nothing")
	var refused *Error
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, "clCreateKernel: invalid kernel name (-46)")
	_, err = d.context.Kernel("probe.cl", "-Dfloat=!", "probe")
	require.ErrorContains(t, err, "does not build")
	_, err = d.context.Alloc(tiering.Shared, 1<<62)
	var full *hetero.MemoryError
	require.ErrorAs(t, err, &full)
}

// matrix holds random weights of a type, as stored and as numbers.
type matrix struct {
	stored []byte
	values []float32
	sums   []float64 // Σ|w| of each row
}

func randomMatrix(t testing.TB, rng *rand.Rand, typ quant.Type, rows, cols int) (m matrix) {
	t.Helper()
	size, err := typ.RowBytes(cols)
	require.NoError(t, err)
	m.stored, m.values, m.sums = make([]byte, rows*size), make([]float32, rows*cols), make([]float64, rows)
	for r := range rows {
		to, values := m.stored[r*size:][:size], m.values[r*cols:][:cols]
		for i := range values {
			values[i] = float32(rng.NormFloat64())
		}
		switch typ {
		case quant.F32:
			copy(to, floatBytes(values))
		case quant.F16:
			quant.RoundF16(to, values)
		default:
			if quant.CanQuantize(typ) {
				require.NoError(t, quant.QuantizeRow(typ, to, values, nil))
				break
			}
			for i := range to { // any bytes are weights; scales must be finite
				to[i] = byte(rng.Uint32()) & 0x3b
			}
			for i := 0; typ == quant.MXFP4 && i < size; i += typ.BlockBytes() {
				to[i] = 127 // a scale of about 1, as half precision wants it
			}
		}
		quant.DequantRow(typ, values, to)
		for _, v := range values {
			m.sums[r] += math.Abs(float64(v))
		}
	}
	return m
}

// exact returns an element of the matmul in float64.
func (m *matrix) exact(x []float32, row int) (sum float64) {
	for i, v := range x {
		sum += float64(v) * float64(m.values[row*len(x)+i])
	}
	return sum
}

func TestMatmulsOfEveryType(t *testing.T) {
	d, budget := open(t)
	rng := rand.New(rand.NewPCG(3, 4))
	shapes := []struct{ rows, cols, tokens int }{{40, 512, 1}, {131, 256, 1}, {70, 256, 3}, {131, 512, 70}}
	for typ := quant.F32; typ <= quant.NF4; typ++ {
		t.Run(typ.String(), func(t *testing.T) {
			format, exact := formatOf(typ)
			for _, s := range shapes {
				m := randomMatrix(t, rng, typ, s.rows, s.cols)
				multiply(t, d, budget, rng, hetero.Op{Tokens: s.tokens, Rows: s.rows, Cols: s.cols, Type: typ, Weights: m.stored}, &m)
			}
			t.Logf("format %d, exact %v", format, exact)
		})
	}
	t.Run("columns that fill no block", func(t *testing.T) {
		for _, typ := range []quant.Type{quant.F32, quant.F16, quant.BF16} {
			for _, tokens := range []int{1, 2} {
				m := randomMatrix(t, rng, typ, 9, 37)
				multiply(t, d, budget, rng, hetero.Op{Tokens: tokens, Rows: 9, Cols: 37, Type: typ, Weights: m.stored}, &m)
			}
		}
	})
}

// greatest returns the greatest of magnitudes.
func greatest(values []float32) (most float64) {
	for _, v := range values {
		most = max(most, math.Abs(float64(v)))
	}
	return most
}

// quantizedBlocks quantizes an input like the kernels: in blocks, to 8 bits.
func quantizedBlocks(x []float32) []float32 {
	rounded := make([]float32, len(x))
	for from := 0; from < len(x); from += blockElems {
		step := greatest(x[from:][:blockElems]) / 127
		for i, v := range x[from:][:blockElems] {
			rounded[from+i] = float32(math.RoundToEven(float64(v)/step) * step)
		}
	}
	return rounded
}

// multiply compares a matmul of views that begin inside their buffers.
func multiply(t *testing.T, d *Device, budget *tiering.Budget, rng *rand.Rand, op hetero.Op, m *matrix) {
	t.Helper()
	const skip = 5 // elements before the views, and between rows
	width := max(op.Rows, op.Cols) + skip
	pool, err := hetero.NewBufferPool(budget, 2, 4*(op.Tokens*width+skip), d)
	require.NoError(t, err)
	x := hetero.View{Buffer: pool.Take(), Offset: skip, Stride: op.Cols + skip}
	y := hetero.View{Buffer: pool.Take(), Offset: skip, Stride: op.Rows + skip}
	defer func() {
		for b, memory := range d.buffers {
			require.NoError(t, memory.Free())
			delete(d.buffers, b)
		}
		pool.Close()
	}()
	const untouched = -77
	for i := range y.Buffer.Floats() {
		y.Buffer.Floats()[i] = untouched
	}
	for token := range op.Tokens {
		for i := range x.Row(token, op.Cols) {
			x.Row(token, op.Cols)[i] = float32(rng.NormFloat64())
		}
	}
	k, err := d.Prepare(op)
	require.NoError(t, err)
	for _, b := range []*hetero.Buffer{x.Buffer, y.Buffer} {
		require.NoError(t, d.Flush(b))
	}
	ticket, err := k.Submit(x, y)
	require.NoError(t, err)
	require.NoError(t, ticket.Wait())
	require.True(t, ticket.Done())
	require.NoError(t, d.Fetch(y.Buffer))
	format, _ := formatOf(op.Type)
	for token := range op.Tokens {
		in, out := x.Row(token, op.Cols), y.Row(token, op.Rows+skip)
		most := greatest(in)
		rounded, step := in, 0.0
		if op.Tokens == 1 && format < Half {
			rounded, step = quantizedBlocks(in), most/127
		}
		for r := range op.Rows {
			want, bound := m.exact(in, r), k.Tolerance()*most*m.sums[r]
			if !(math.Abs(want-float64(out[r])) <= bound) {
				t.Fatalf("%d×%d×%d: y[%d,%d] is %g, not %g ± %g", op.Tokens, op.Rows, op.Cols, token, r, out[r], want, bound)
			}
			// The quantized input is known, except for an element between two codes.
			want = m.exact(rounded, r)
			bound = k.(*kernel).weights.Tolerance(2)*most*m.sums[r] + step*greatest(m.values[r*op.Cols:][:op.Cols])
			if !(math.Abs(want-float64(out[r])) <= bound) {
				t.Fatalf("%d×%d×%d: y[%d,%d] is %g, not %g ± %g of the rounded input", op.Tokens, op.Rows, op.Cols, token, r, out[r], want, bound)
			}
		}
		if token+1 < op.Tokens {
			require.EqualValues(t, untouched, out[op.Rows], "between rows")
		}
	}
	require.EqualValues(t, untouched, y.Buffer.Floats()[skip-1], "before the view")
	for _, v := range [][2]hetero.View{{x.At(0, len(x.Buffer.Floats())), y}, {x, y.At(0, len(y.Buffer.Floats()))}, {x, y.At(0, -skip-1)}} {
		_, err = k.Submit(v[0], v[1])
		require.ErrorContains(t, err, "exceed their buffers")
	}
	require.NoError(t, k.Close())
	require.ErrorIs(t, k.Close(), errKernelClosed)
	_, err = k.Submit(x, y)
	require.ErrorIs(t, err, errKernelClosed)
}

func TestStackedAndInterleavedRows(t *testing.T) {
	d, _ := open(t)
	c := d.context
	rng := rand.New(rand.NewPCG(5, 6))
	const rows, cols = 24, 64
	a, b := randomMatrix(t, rng, quant.Q4_0, rows, cols), randomMatrix(t, rng, quant.Q4_0, rows, cols)
	x, bias := randoms(rng, cols), randoms(rng, rows)
	parts := []Weights{
		{Type: quant.Q4_0, Rows: rows, Cols: cols, Data: a.stored, Bias: bias},
		{Type: quant.Q4_0, Rows: rows, Cols: cols, Data: b.stored},
	}
	in := floats(t, c, x)
	defer func() { require.NoError(t, in.Free()) }()
	out, err := c.Alloc(tiering.Shared, 4*2*rows)
	require.NoError(t, err)
	defer func() { require.NoError(t, out.Free()) }()

	// run multiplies one token and several, starting from the contents of out.
	run := func(interleave bool, result OutputOp, before []float32) [2][]float32 {
		p, err := c.NewWeightMatrix(interleave, parts...)
		require.NoError(t, err)
		v, err := p.NewGEMV(Input{X: in}, Output{Y: out, Op: result, Factor: 0.5})
		require.NoError(t, err)
		m, err := p.NewGEMM(1, in, 0, cols, Output{Y: out, Stride: 2 * rows, Op: result, Factor: 0.5})
		require.NoError(t, err)
		var got [2][]float32
		for i, launch := range []func() error{v.Launch, func() error { return m.Launch(1) }} {
			require.NoError(t, out.Write(0, floatBytes(before)))
			require.NoError(t, launch())
			got[i] = make([]float32, 2*rows)
			require.NoError(t, out.Read(0, floatBytes(got[i])))
		}
		require.NoError(t, errors.Join(v.Close(), m.Close(), p.Close()))
		return got
	}
	before := make([]float32, 2*rows)
	for i := range before {
		before[i] = float32(i)
	}
	inputs := [2][]float32{quantizedBlocks(x), x} // of one token and of many
	for i, got := range run(false, Store, before) {
		x := inputs[i]
		for r := range rows {
			require.InDelta(t, a.exact(x, r)+float64(bias[r]), got[r], 1e-4)
			require.InDelta(t, b.exact(x, r), got[rows+r], 1e-4)
		}
	}
	for i, got := range run(false, Add, before) {
		for r := range rows {
			require.InDelta(t, float64(r)+0.5*(a.exact(inputs[i], r)+float64(bias[r])), got[r], 1e-4)
		}
	}
	for result, act := range map[OutputOp]func(dst, gate, up []float32){
		SiLUPairs: quant.SiluMul, GELUTanhPairs: quant.GeluTanhMul, GELUErfPairs: quant.GeluErfMul,
	} {
		for i, got := range run(true, result, before) {
			x := inputs[i]
			for r := range rows {
				want := make([]float32, 1)
				act(want, []float32{float32(a.exact(x, r)) + bias[r]}, []float32{float32(b.exact(x, r))})
				require.InDelta(t, want[0], got[r], 1e-4, "activation %d, row %d", result, r)
			}
		}
	}
	_, err = c.NewWeightMatrix(true, parts[0], Weights{Type: quant.F32, Rows: rows, Cols: cols, Data: make([]byte, 4*rows*cols)})
	require.Error(t, err, "two formats")
	_, err = c.NewWeightMatrix(false, Weights{Type: quant.F32, Rows: 2, Cols: cols, Data: make([]byte, 4*cols)})
	require.Error(t, err, "too few bytes")
}

func ExampleError() {
	fmt.Println(&Error{"clCreateBuffer", -4})
	// Output: opencl: clCreateBuffer: out of device memory (-4)
}
