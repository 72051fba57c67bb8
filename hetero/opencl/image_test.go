package opencl

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

// openImages is open for tests that need a device with images.
func openImages(t *testing.T) *Context {
	t.Helper()
	d, _ := open(t)
	if d.context.Info.ImageUnits == 0 {
		t.Skip("the device has no images over buffers")
	}
	return d.context
}

// TestImagesMatchBuffers multiplies weights of every type from buffers and from
// images, for one token and for several.
func TestImagesMatchBuffers(t *testing.T) {
	c := openImages(t)
	rng := rand.New(rand.NewPCG(11, 12))
	const rows, cols, tokens = 37, 512, 3
	x := randoms(rng, tokens*cols)
	in := floats(t, c, x)
	out, err := c.Alloc(tiering.Shared, 4*tokens*rows)
	require.NoError(t, err)
	for typ := quant.F32; typ <= quant.NF4; typ++ {
		m := randomMatrix(t, rng, typ, rows, cols)
		bias := randoms(rng, rows)
		var got [2][]float32
		for _, way := range []Source{Buffers, Images} {
			c.Weights = way
			p, err := c.NewWeightMatrix(false, Weights{Type: typ, Rows: rows, Cols: cols, Data: m.stored, Bias: bias})
			require.NoError(t, err)
			require.Equal(t, way, p.Source())
			require.EqualValues(t, way, c.Stats().Images)
			v, err := p.NewGEMV(Input{X: in}, Output{Y: out})
			require.NoError(t, err)
			wide, err := p.NewGEMM(tokens, in, 0, cols, Output{Y: out, Stride: rows})
			require.NoError(t, err)
			for _, launch := range []func() error{v.Launch, func() error { return wide.Launch(tokens) }} {
				result := make([]float32, tokens*rows)
				require.NoError(t, out.WriteFloats(0, result))
				require.NoError(t, launch())
				require.NoError(t, out.Read(0, floatBytes(result)))
				got[way] = append(got[way], result...)
			}
			require.NoError(t, errors.Join(v.Close(), wide.Close(), p.Close()))
		}
		require.Equal(t, got[Buffers], got[Images], "%v", typ)
		require.NotZero(t, got[Images][0])
	}
	require.Zero(t, c.Stats().Images)
	require.NoError(t, errors.Join(in.Free(), out.Free()))
}

// TestImagesFallBackToBuffers tests images that are too large, that the driver
// refuses, or that are disabled.
func TestImagesFallBackToBuffers(t *testing.T) {
	c := openImages(t)
	const rows, cols = 8, 64
	weights := Weights{Type: quant.F32, Rows: rows, Cols: cols, Data: make([]byte, 4*rows*cols)}
	const units = rows * cols / 4
	most := c.Info.ImageUnits
	for _, try := range []struct {
		way   Source
		limit int64
		want  Source
	}{{Images, units, Images}, {Images, units - 1, Buffers}, {Images, 0, Buffers}, {Buffers, most, Buffers}} {
		c.Weights, c.Info.ImageUnits = try.way, try.limit
		p, err := c.NewWeightMatrix(false, weights)
		require.NoError(t, err)
		require.Equal(t, try.want, p.Source(), "%+v", try)
		require.NoError(t, p.Close())
	}
	c.Weights, c.Info.ImageUnits = Images, most
	refused, err := c.newCodesImage(&Memory{context: c}, &matrixLayout{format: Float, rows: rows, cols: cols})
	require.NoError(t, err)
	require.Nil(t, refused)
	l, err := c.Measure(1 << 16)
	require.NoError(t, err)
	require.Positive(t, l.ImageGBs)
}

func TestEnvironmentChoosesImages(t *testing.T) {
	for name, want := range map[string]Source{"": Buffers, "buffers": Buffers, "images": Images} {
		way, err := sourceOf(name)
		require.NoError(t, err)
		require.Equal(t, want, way, name)
	}
	_, err := sourceOf("image")
	require.ErrorContains(t, err, WeightsVariable)
	require.ErrorContains(t, err, `"image"`)
	require.ErrorContains(t, err, "buffers or images")
}
