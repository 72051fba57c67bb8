package opencl

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

// half rounds to half precision.
func half(x float32) float32 { return quant.F16ToF32(quant.F32ToF16(x)) }

// halfSteps are the ways in which devices add a product to a sum in half precision:
// rounded once, as OpenCL specifies; computed in float and then rounded, which
// sometimes differs; and with a product that was rounded before.
var halfSteps = map[string]func(w, x, sum float64) float32{
	"at once":  func(w, x, sum float64) float32 { return half(odd(math.FMA(w, x, sum))) },
	"in float": func(w, x, sum float64) float32 { return half(float32(math.FMA(w, x, sum))) },
	"apart":    func(w, x, sum float64) float32 { return half(half(float32(w*x)) + float32(sum)) },
}

// inHalves computes a matmul like the kernels in half precision.
func inHalves(x, w []float32, step func(w, x, sum float64) float32) (sum float32) {
	for from := 0; from < len(x); from += blockElems {
		ofBlock := float32(0)
		for i := from; i < from+blockElems; i++ {
			ofBlock = step(float64(half(w[i])), float64(half(x[i])), float64(ofBlock))
		}
		sum += ofBlock
	}
	return sum
}

// odd rounds x to a float so that a second rounding to fewer bits gives the same as
// rounding x directly: a number between two floats becomes the one whose last bit is
// set.
func odd(x float64) float32 {
	near := float32(x)
	if float64(near) == x || math.Float32bits(near)&1 == 1 {
		return near
	}
	return math.Nextafter32(near, float32(math.Copysign(math.Inf(1), x-float64(near))))
}

// TestMatmulsInFewerBits multiplies many tokens with weights of every type in half
// precision and on tensor units, natively if the device supports it, and emulated.
func TestMatmulsInFewerBits(t *testing.T) {
	d, _ := open(t)
	c := d.context
	kinds, usual := roundingKinds(c), c.Arithmetic
	rng := rand.New(rand.NewPCG(13, 14))
	const rows, cols, tokens = 37, 512, 3
	x := randoms(rng, tokens*cols)
	in := floats(t, c, x)
	out, err := c.Alloc(tiering.Shared, 4*tokens*rows)
	require.NoError(t, err)
	for typ := quant.F32; typ <= quant.NF4; typ++ {
		m := randomMatrix(t, rng, typ, rows, cols)
		p, err := c.NewWeightMatrix(false, Weights{Type: typ, Rows: rows, Cols: cols, Data: m.stored})
		require.NoError(t, err)
		c.Arithmetic = Floats
		floats := p.Tolerance(tokens)
		for _, c.Arithmetic = range kinds {
			require.Greater(t, p.Tolerance(tokens), floats)
			k, err := p.NewGEMM(tokens, in, 0, cols, Output{Y: out, Stride: rows})
			require.NoError(t, err)
			got := make([]float32, tokens*rows)
			require.NoError(t, out.WriteFloats(0, got))
			require.NoError(t, k.Launch(tokens))
			require.NoError(t, out.Read(0, floatBytes(got)))
			require.NoError(t, k.Close())
			if typ == quant.F16 && (c.Arithmetic == Halves || c.Arithmetic == EmulatedHalves) {
				requireHalves(t, c.Arithmetic, x, m.values, got, cols)
			}
			for i, v := range got {
				token, row := x[i/rows*cols:][:cols], i%rows
				bound := p.Tolerance(tokens) * greatest(token) * m.sums[row]
				require.InDelta(t, m.exact(token, row), v, bound, "%v in %v, element %d", typ, c.Arithmetic, i)
			}
		}
		c.Arithmetic = usual
		require.NoError(t, p.Close())
	}
	require.NoError(t, errors.Join(in.Free(), out.Free()))
}

// roundingKinds are the kinds of arithmetic but floats that can be tried on a device.
func roundingKinds(c *Context) []Arithmetic {
	kinds := []Arithmetic{EmulatedHalves, EmulatedTensors}
	if c.Info.Half {
		kinds = append(kinds, Halves)
	}
	if c.Info.Tensors {
		kinds = append(kinds, Tensors)
	}
	return kinds
}

// TestTilesOfTensorUnits compares small and large tiles, with every output operation,
// with float arithmetic.
func TestTilesOfTensorUnits(t *testing.T) {
	d, _ := open(t)
	c := d.context
	kinds, usual := []Arithmetic{Floats, EmulatedTensors}, c.Arithmetic
	if c.Info.Tensors {
		kinds = append(kinds, Tensors)
	}
	defer func() { c.Arithmetic = usual }()
	rng := rand.New(rand.NewPCG(15, 16))
	units := c.Info.ComputeUnits
	defer func() { c.Info.ComputeUnits = units }()
	c.Info.ComputeUnits = 1 // so that large tiles have enough groups
	const cols = 96
	for _, size := range [][2]int{{70, 67}, {260, 261}} {
		rows, tokens := size[0], size[1]
		m := randomMatrix(t, rng, quant.Q8_0, rows, cols)
		x := randoms(rng, tokens*cols)
		p, err := c.NewWeightMatrix(false, Weights{Type: quant.Q8_0, Rows: rows, Cols: cols, Data: m.stored, Bias: randoms(rng, rows)})
		require.NoError(t, err)
		in := floats(t, c, x)
		out, err := c.Alloc(tiering.Shared, 4*tokens*rows)
		require.NoError(t, err)
		before := randoms(rng, tokens*rows)
		for _, result := range []OutputOp{Store, Add, SiLUPairs} {
			var want []float32
			for _, c.Arithmetic = range kinds {
				k, err := p.NewGEMM(tokens, in, 0, cols, Output{Y: out, Stride: rows, Op: result, Factor: 0.5})
				require.NoError(t, err)
				require.Equal(t, rows > 200, k.rows == tileStep*largeTile)
				require.NoError(t, out.WriteFloats(0, before))
				require.NoError(t, k.Launch(tokens))
				got := make([]float32, tokens*rows)
				require.NoError(t, out.Read(0, floatBytes(got)))
				require.NoError(t, k.Close())
				if want == nil {
					want = got
				}
				testutil.RequireNear(t, want, got, 0.01*greatest(want), "%v, %d rows, result %d", c.Arithmetic, rows, result)
			}
			require.NotEqual(t, before, want)
		}
		require.NoError(t, errors.Join(p.Close(), in.Free(), out.Free()))
	}
}

// requireHalves requires that a matmul equals one of halfSteps bit for bit, for
// inputs that half precision represents. Emulated arithmetic must equal the way in
// float.
func requireHalves(t *testing.T, a Arithmetic, x, w, got []float32, cols int) {
	t.Helper()
	rows := len(w) / cols
	var ways []string
	for name, step := range halfSteps {
		want := make([]float32, len(got))
		for i := range want {
			want[i] = inHalves(x[i/rows*cols:][:cols], w[i%rows*cols:][:cols], step)
		}
		if slices.Equal(want, got) {
			ways = append(ways, name)
		}
	}
	t.Logf("%v adds products %v", a, ways)
	if a == EmulatedHalves {
		require.Contains(t, ways, "in float")
	}
	require.NotEmpty(t, ways)
}

// TestArithmeticNeedsADevice requests arithmetic that a device may not support.
func TestArithmeticNeedsADevice(t *testing.T) {
	for _, c := range []struct {
		name          string
		half, tensors bool
		want          Arithmetic
	}{
		{"", true, false, Floats},
		{"", false, true, Tensors},
		{"float", true, true, Floats},
		{"half", true, true, Halves},
		{"half", false, true, Tensors},
		{"half", false, false, Floats},
		{"tensor", true, false, Floats},
		{"tensor", false, true, Tensors},
	} {
		got, err := arithmeticOf(c.name, &Info{Half: c.half, Tensors: c.tensors})
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%+v", c)
	}
	_, err := arithmeticOf("fp16", &Info{})
	require.ErrorContains(t, err, ArithmeticVariable)
	require.ErrorContains(t, err, `"fp16": use float, half or tensor`)

	t.Setenv(ArithmeticVariable, Halves.String())
	d, _ := open(t)
	require.Equal(t, d.context.Info.Half, d.context.Arithmetic == Halves)
}
