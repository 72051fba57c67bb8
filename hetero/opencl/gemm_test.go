package opencl

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

// TestGEMVOfEveryShape partitions one matmul in the ways that devices with many
// compute units use.
func TestGEMVOfEveryShape(t *testing.T) {
	d, _ := open(t)
	c := d.context
	rng := rand.New(rand.NewPCG(7, 8))
	const rows, cols = 37, 10 * blockElems
	m := randomMatrix(t, rng, quant.Q8_0, rows, cols)
	x := randoms(rng, cols)
	in := floats(t, c, x)
	out, err := c.Alloc(tiering.Shared, 4*rows)
	require.NoError(t, err)
	p, err := c.NewWeightMatrix(false, Weights{Type: quant.Q8_0, Rows: rows, Cols: cols, Data: m.stored})
	require.NoError(t, err)
	for _, s := range []gemvShape{{rows: 4, lanes: 2, depth: 2}, {rows: 8, lanes: 4, depth: 3}} {
		for _, tailored := range []bool{false, true} {
			p.forcedShape, p.Specialized = &s, tailored
			v, err := p.NewGEMV(Input{X: in}, Output{Y: out})
			require.NoError(t, err)
			got := make([]float32, rows)
			require.NoError(t, out.WriteFloats(0, got))
			require.NoError(t, v.Launch())
			require.NoError(t, out.Read(0, floatBytes(got)))
			for r := range rows {
				require.InDelta(t, m.exact(quantizedBlocks(x), r), got[r], 1e-4, "%+v, tailored %v, row %d", s, tailored, r)
			}
			require.NoError(t, v.Close())
		}
	}
	require.NoError(t, errors.Join(in.Free(), out.Free(), p.Close()))
}

// TestGroupLimitsOfTheDriver requests more work items per group than a kernel may
// have: more than the device allows, and more than the driver allows for a kernel
// (simulated).
func TestGroupLimitsOfTheDriver(t *testing.T) {
	d, _ := open(t)
	c := d.context
	rng := rand.New(rand.NewPCG(11, 12))
	const rows, cols, tokens = 256, 10 * blockElems, 3
	m := randomMatrix(t, rng, quant.Q8_0, rows, cols)
	x := randoms(rng, tokens*cols)
	in := floats(t, c, x)
	out, err := c.Alloc(tiering.Shared, 4*tokens*rows)
	require.NoError(t, err)
	p, err := c.NewWeightMatrix(false, Weights{Type: quant.Q8_0, Rows: rows, Cols: cols, Data: m.stored})
	require.NoError(t, err)
	result := func(x []float32, launch func() error) {
		t.Helper()
		got := make([]float32, len(x)/cols*rows)
		require.NoError(t, launch())
		require.NoError(t, out.Read(0, floatBytes(got)))
		for i, y := range got {
			require.InDelta(t, m.exact(x[i/rows*cols:][:cols], i%rows), y, 1e-3, "element %d", i)
		}
	}
	allow := func(groups ...int) { // limits of the kernels in the order in which they are built
		c.maxGroupOverride = func(*Kernel) int {
			most := groups[0]
			groups = groups[1:]
			return most
		}
	}

	p.forcedShape = &gemvShape{rows: 32, lanes: c.Info.MaxGroup / 16, depth: 1}
	v, err := p.NewGEMV(Input{X: in}, Output{Y: out})
	require.NoError(t, err)
	require.LessOrEqual(t, v.local[0], c.Info.MaxGroup)
	result(quantizedBlocks(x[:cols]), v.Launch)
	require.NoError(t, v.Close())
	p.forcedShape = &gemvShape{rows: 8, lanes: 16, depth: 2}
	allow(100, 60, 60)
	v, err = p.NewGEMV(Input{X: in}, Output{Y: out})
	require.NoError(t, err)
	require.Equal(t, 8*7, v.local[0], "the limit of the smaller kernel is lower again")
	result(quantizedBlocks(x[:cols]), v.Launch)
	require.NoError(t, v.Close())
	allow(2)
	_, err = p.NewGEMV(Input{X: in}, Output{Y: out})
	require.ErrorContains(t, err, c.Info.Name)
	require.ErrorContains(t, err, "work-groups are limited to 2 ")

	units := c.Info.ComputeUnits
	c.Info.ComputeUnits = 1 // so that GEMM uses large tiles
	if c.Info.LocalMemory >= largeMemory {
		for _, few := range []bool{false, true} {
			allow(gemmThreads, gemmThreads)
			if few {
				allow(gemmThreads/2, gemmThreads)
			}
			k, err := p.NewGEMM(tokens, in, 0, cols, Output{Y: out, Stride: rows})
			require.NoError(t, err)
			require.Equal(t, few, k.rows == tileStep*smallTile)
			result(x, func() error { return k.Launch(tokens) })
			require.NoError(t, k.Close())
		}
	}
	allow(gemmThreads/2, gemmThreads/2)
	_, err = p.NewGEMM(tokens, in, 0, cols, Output{Y: out, Stride: rows})
	require.ErrorContains(t, err, "work-groups are limited to 128 work items; GEMM needs 256")
	c.Info.ComputeUnits, c.maxGroupOverride = units, nil
	require.NoError(t, errors.Join(in.Free(), out.Free(), p.Close()))
}

// TestDotsAgree compares the device's dot product instruction with the portable one:
// integer sums are equal.
func TestDotsAgree(t *testing.T) {
	d, _ := open(t)
	c := d.context
	if c.Info.Dot == DotPortable {
		t.Skip("the device has no instruction for products of codes")
	}
	rng := rand.New(rand.NewPCG(9, 10))
	const rows, cols = 24, 8 * blockElems
	x := randoms(rng, cols)
	in := floats(t, c, x)
	out, err := c.Alloc(tiering.Shared, 4*rows)
	require.NoError(t, err)
	for _, typ := range []quant.Type{quant.Q4_0, quant.Q4_1, quant.Q5_1, quant.Q8_0, quant.Q6_K} {
		m := randomMatrix(t, rng, typ, rows, cols)
		p, err := c.NewWeightMatrix(false, Weights{Type: typ, Rows: rows, Cols: cols, Data: m.stored})
		require.NoError(t, err)
		found := c.Info.Dot
		var got [2][]float32
		for i, dot := range []Dot{found, DotPortable} {
			c.Info.Dot = dot
			v, err := p.NewGEMV(Input{X: in}, Output{Y: out})
			require.NoError(t, err)
			got[i] = make([]float32, rows)
			require.NoError(t, v.Launch())
			require.NoError(t, out.Read(0, floatBytes(got[i])))
			require.NoError(t, v.Close())
		}
		c.Info.Dot = found
		testutil.RequireNear(t, got[1], got[0], 1e-4, "%v", typ) // less than a step of one code
		require.NoError(t, p.Close())
	}
	require.NoError(t, errors.Join(in.Free(), out.Free()))
}

func TestLaunchesAllocateNothingAndAreCounted(t *testing.T) {
	d, _ := open(t)
	c := d.context
	weights := make([]byte, 8*32*4)
	p, err := c.NewWeightMatrix(false, Weights{Type: quant.F32, Rows: 8, Cols: 32, Data: weights})
	require.NoError(t, err)
	m, err := c.Alloc(tiering.Shared, 4*64)
	require.NoError(t, err)
	v, err := p.NewGEMV(Input{X: m}, Output{Y: m, To: 32})
	require.NoError(t, err)
	before := c.Stats()
	runs := 0
	allocs := testutil.AllocsPerRun(9, 0, func() {
		runs++
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
