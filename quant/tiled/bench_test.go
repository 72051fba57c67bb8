package tiled

import (
	"fmt"
	"testing"
	"time"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/limits"
)

// benchTypes are the types that models are mostly published in.
var benchTypes = []quant.Type{quant.Q4_0, quant.Q8_0, quant.Q4_K, quant.Q5_K, quant.Q6_K, quant.IQ4_NL, quant.MXFP4}

// fastest returns the shortest of the times that run takes: on a busy machine
// the rest is other programs' time.
func fastest(b *testing.B, run func()) time.Duration {
	var best time.Duration
	for b.Loop() {
		start := time.Now()
		run()
		if took := time.Since(start); best == 0 || took < best {
			best = took
		}
	}
	return best
}

// BenchmarkPanel multiplies some tiles of rows with a prompt and reports the
// operations as a fraction of what one core can do.
func BenchmarkPanel(b *testing.B) {
	const rows, cols = 64, 2048
	for _, typ := range benchTypes {
		m := benchMatrix(typ, rows, cols)
		for _, tokens := range []int{4, 16, 64, 512} {
			b.Run(fmt.Sprintf("%s/tokens=%d", typ, tokens), func(b *testing.B) {
				a := activationsOf(randomVector(tokens*cols, 2), cols, tokens)
				s := NewScratch(tokens)
				y := make([]float32, tokens*rows)
				peak, _, err := limits.Int8Peak(1)
				if err != nil {
					b.Fatal(err)
				}
				took := fastest(b, func() { Multiply(y, m, 0, m.Tiles(), a, s) })
				rate := 2 * rows * cols * float64(tokens) / took.Seconds()
				again, _, _ := limits.Int8Peak(1)
				b.ReportMetric(rate/1e9, "Gop/s")
				b.ReportMetric(100*rate/max(peak, again), "%peak")
			})
		}
	}
}

func benchMatrix(typ quant.Type, rows, cols int) *Matrix {
	n, err := Bytes(typ, rows, cols)
	if err != nil {
		panic(err)
	}
	m := &Matrix{typ, rows, cols, make([]byte, n)}
	Pack(m.Data, typ, randomRows(typ, rows, cols, 1), rows, cols)
	return m
}
