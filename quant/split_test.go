package quant

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSplitRowMatchesDecoder checks that the codes, scales and offsets of SplitRow combine
// to the values of the decoder, on rows of random bytes.
func TestSplitRowMatchesDecoder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	tested := 0
	for typ := range NF4 + 1 {
		p, ok := PartsOf(typ)
		if !ok {
			continue
		}
		tested++
		t.Run(typ.String(), func(t *testing.T) {
			cols := 4 * 256
			size, err := typ.RowBytes(cols)
			require.NoError(t, err)
			src := make([]byte, size)
			for i := range src {
				src[i] = byte(rng.Uint32())
				if i%2 == 1 {
					src[i] &= 0xbf // keeps scales finite
				}
			}
			want := make([]float32, cols)
			DequantRow(typ, want, src)
			codes, scales, offsets := make([]int8, cols), make([]float32, cols/p.Group), make([]float32, cols/p.Group)
			SplitRow(typ, codes, scales, offsets, src)
			for i, code := range codes {
				require.True(t, p.Low <= code && code <= p.High, "code %d", code)
				scale := scales[i/p.Group]
				if p.Half {
					require.Equal(t, scale, F16ToF32(F32ToF16(scale)))
				}
				got := scale * float32(code)
				if p.Offsets {
					got = float32(got) + offsets[i/p.Group]
				}
				if math.IsNaN(float64(want[i])) {
					continue
				}
				require.Equal(t, want[i], got, "element %d", i)
			}
		})
	}
	require.Equal(t, 8, tested)
}
