package quant

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWidenRowsOnEveryPath(t *testing.T) {
	for _, path := range supportedPaths() {
		for _, cols := range []int{1, 7, 8, 16, 31, 64, 80, 128} {
			const rows = 3
			src, scales := make([]int8, rows*cols), []float32{0.5, 0, 1.0 / 3}
			for i := range src {
				src[i] = int8(i*37 - 128)
			}
			before := active
			active = path
			got := make([]float32, rows*cols)
			WidenRows(got, src, scales, cols)
			active = before
			for i, v := range src {
				require.Equal(t, float32(v)*scales[i/cols], got[i], "%s, %d columns, element %d", path.name(), cols, i)
			}
		}
	}
}
