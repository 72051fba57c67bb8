package tiled

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestScoresMatchFloats(t *testing.T) {
	for _, cols := range []int{32, 64, 128, 256} {
		const keys, queries, stride = 40, 19, 64
		random := rand.New(rand.NewPCG(uint64(cols), 1))
		codes, scales := make([]uint8, 48*cols), make([]float32, 48)
		for i := range codes {
			codes[i] = uint8(random.Uint32())
		}
		for i := range scales {
			scales[i] = random.Float32()
		}
		x := randomVector(queries*cols, 7)
		a := activationsOf(x, cols, queries)
		y := make([]float32, queries*stride)
		Scores(y, stride, codes, scales, cols, keys, a, NewScratch(1))
		for q := range queries {
			for k := range keys {
				var want, size float64
				for i := range cols {
					code := int(codes[k/16*16*cols+i/4*64+k%16*4+i%4]) - 128
					var r [GroupElems]int8
					d := roundGroup(&r, x[q*cols+i/GroupElems*GroupElems:][:GroupElems])
					v := float64(code) * float64(scales[k]) * float64(d) * float64(r[i%GroupElems])
					want += v
					size += max(v, -v)
				}
				require.InDelta(t, want, y[q*stride+k], size*3e-5, "query %d key %d", q, k)
			}
		}
	}
}
