package quant

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func BenchmarkMulRows(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range []struct{ rows, cols int }{{1024, 1024}, {256, 4096}} {
		x := randomFloats(rng, 64*size.cols)
		y := make([]float32, 64*size.rows)
		s := NewScratch(size.cols)
		for _, format := range []Type{F32, BF16, F16, Q8_0, Q4_0, Q4_K, Q6_K} {
			w := randomRows(rng, format, size.rows, size.cols)
			for _, n := range []int{1, 8, 64} {
				b.Run(fmt.Sprintf("%s/%dx%d/n=%d", format, size.rows, size.cols, n), func(b *testing.B) {
					for b.Loop() {
						MulRows(y, size.rows, format, w, size.cols, 0, size.rows, x, n, s)
					}
					macs := float64(size.rows) * float64(size.cols) * float64(n) * float64(b.N)
					b.ReportMetric(macs/b.Elapsed().Seconds()/1e9, "GMAC/s")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}
