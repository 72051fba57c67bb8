package opencl

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

// TestVectorsOfEveryShape divides one product in ways that devices ask for which
// have many compute units.
func TestVectorsOfEveryShape(t *testing.T) {
	d, _ := open(t)
	c := d.context
	rng := rand.New(rand.NewPCG(7, 8))
	const rows, cols = 37, 10 * blockElems
	m := randomMatrix(t, rng, quant.Q8_0, rows, cols)
	x := make([]float32, cols)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	in := floats(t, c, x)
	out, err := c.Alloc(tiering.Shared, 4*rows)
	require.NoError(t, err)
	p, err := c.NewProduct(false, Weights{Type: quant.Q8_0, Rows: rows, Cols: cols, Data: m.stored})
	require.NoError(t, err)
	for _, s := range []vectorShape{{rows: 4, lanes: 2, deep: 2}, {rows: 8, lanes: 4, deep: 3}} {
		for _, tailored := range []bool{false, true} {
			p.divide, p.Tailored = &s, tailored
			v, err := p.Vector(Input{X: in}, Output{Y: out})
			require.NoError(t, err)
			got := make([]float32, rows)
			require.NoError(t, out.WriteFloats(0, got))
			require.NoError(t, v.Launch())
			require.NoError(t, out.Read(0, floatBytes(got)))
			for r := range rows {
				require.InDelta(t, m.exact(roundedBlocks(x), r), got[r], 1e-4, "%+v, tailored %v, row %d", s, tailored, r)
			}
			require.NoError(t, v.Close())
		}
	}
	require.NoError(t, errors.Join(in.Free(), out.Free(), p.Close()))
}

// TestDotsAgree compares the device's instruction for codes with what every device
// can do: sums of integers are the same.
func TestDotsAgree(t *testing.T) {
	d, _ := open(t)
	c := d.context
	if c.Info.Dot == DotPortable {
		t.Skip("the device has no instruction for products of codes")
	}
	rng := rand.New(rand.NewPCG(9, 10))
	const rows, cols = 24, 8 * blockElems
	x := make([]float32, cols)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	in := floats(t, c, x)
	out, err := c.Alloc(tiering.Shared, 4*rows)
	require.NoError(t, err)
	for _, typ := range []quant.Type{quant.Q4_0, quant.Q4_1, quant.Q5_1, quant.Q8_0, quant.Q6_K} {
		m := randomMatrix(t, rng, typ, rows, cols)
		p, err := c.NewProduct(false, Weights{Type: typ, Rows: rows, Cols: cols, Data: m.stored})
		require.NoError(t, err)
		found := c.Info.Dot
		var got [2][]float32
		for i, dot := range []Dot{found, DotPortable} {
			c.Info.Dot = dot
			v, err := p.Vector(Input{X: in}, Output{Y: out})
			require.NoError(t, err)
			got[i] = make([]float32, rows)
			require.NoError(t, v.Launch())
			require.NoError(t, out.Read(0, floatBytes(got[i])))
			require.NoError(t, v.Close())
		}
		c.Info.Dot = found
		require.InDeltaSlice(t, got[1], got[0], 1e-4, "%v", typ) // a step of one code is more
		require.NoError(t, p.Close())
	}
	require.NoError(t, errors.Join(in.Free(), out.Free()))
}

func TestLaunchesAllocateNothingAndAreCounted(t *testing.T) {
	d, _ := open(t)
	c := d.context
	weights := make([]byte, 8*32*4)
	p, err := c.NewProduct(false, Weights{Type: quant.F32, Rows: 8, Cols: 32, Data: weights})
	require.NoError(t, err)
	m, err := c.Alloc(tiering.Shared, 4*64)
	require.NoError(t, err)
	v, err := p.Vector(Input{X: m}, Output{Y: m, To: 32})
	require.NoError(t, err)
	before := c.Stats()
	const runs = 10
	allocs := testing.AllocsPerRun(runs-1, func() {
		if v.Launch() != nil || c.Finish() != nil {
			t.Error("launch failed")
		}
	})
	require.Zero(t, allocs)
	s := c.Stats().Since(before)
	require.EqualValues(t, runs, s.Launches)
	require.EqualValues(t, runs, s.Waits)
	require.NoError(t, errors.Join(v.Close(), m.Free(), p.Close()))
}
