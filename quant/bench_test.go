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
		for format := F32; format < numTypes; format++ {
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

// BenchmarkAttention times scores and the sum of values over one block of keys, for a
// single head and for a group of four heads.
func BenchmarkAttention(b *testing.B) {
	const tokens, group = 256, 4
	rng := rand.New(rand.NewPCG(3, 4))
	for _, headDim := range []int{64, 128} {
		keys, queries := randomFloats(rng, tokens*headDim), randomFloats(rng, group*headDim)
		scores, out := make([]float32, group*tokens), make([]float32, group*headDim)
		for _, n := range []int{1, group} {
			macs := float64(tokens * headDim * n)
			b.Run(fmt.Sprintf("scores/d=%d/n=%d", headDim, n), func(b *testing.B) {
				for b.Loop() {
					MulRowsF32(scores, tokens, keys, headDim, tokens, headDim, queries, headDim, n)
				}
				b.ReportMetric(macs*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
			})
			b.Run(fmt.Sprintf("values/d=%d/n=%d", headDim, n), func(b *testing.B) {
				for b.Loop() {
					WeightedSum(out, headDim, scores, tokens, keys, headDim, tokens, headDim, n)
				}
				b.ReportMetric(macs*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
			})
		}
	}
}

func BenchmarkVector(b *testing.B) {
	const n = 4096
	x, dst := randomFloats(rand.New(rand.NewPCG(5, 6)), n), make([]float32, n)
	for _, c := range []struct {
		name string
		call func()
	}{
		{"softmax", func() { copy(dst, x); SoftmaxBlock(dst, n) }},
		{"silu-mul", func() { SiluMul(dst, x, x) }},
		{"gelu-tanh", func() { GeluTanh(dst, x) }},
		{"gelu-erf", func() { GeluErf(dst, x) }},
		{"soft-cap", func() { copy(dst, x); SoftCap(dst, 30) }},
		{"rms-norm", func() { RMSNorm(dst, x, x, 1e-5, 0) }},
		{"layer-norm", func() { LayerNorm(dst, x, x, x, 1e-5) }},
		{"add", func() { Add(dst, x) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				c.call()
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/n*1e9, "ns/element")
		})
	}
}
