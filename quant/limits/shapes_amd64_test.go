//go:build !noasm

package limits

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/quant"
)

// shapeGroups is the number of groups that BenchmarkShapes multiplies at a time: their codes stay
// in the first-level cache.
const shapeGroups = 12

// multiply runs the kernel on codes of code and tokens of x, with scales of one, and returns the
// sums.
func (s shape) multiply(code, x byte, times int) []float32 {
	codes, tokens := make([]byte, shapeGroups*32*s.rows), make([]byte, shapeGroups*32*s.tokens)
	for i := range codes {
		codes[i] = code
	}
	for i := range tokens {
		tokens[i] = x
	}
	scales, sums := make([]float32, 64), make([]float32, s.tokens*s.rows)
	for i := range scales {
		scales[i] = 1
	}
	for range times {
		s.run(&sums[0], &codes[0], &tokens[0], &scales[0], shapeGroups)
	}
	return sums
}

// runs reports whether the active path has the instructions.
func (s shape) runs() bool {
	return quant.Features() == "avx512" || !s.wide && quant.Features() == "avx2"
}

func TestShapes(t *testing.T) {
	for _, s := range shapes {
		if !s.runs() {
			continue
		}
		for _, sum := range s.multiply(13, 251, 2) { // 251 is -5
			require.Equal(t, float32(2*shapeGroups*32*13*-5), sum, "%d rows, %d tokens, wide %t, spread %t", s.rows, s.tokens, s.wide, s.spread)
		}
	}
}

// BenchmarkShapes compares shapes of the register tile.
func BenchmarkShapes(b *testing.B) {
	for _, s := range shapes {
		if !s.runs() {
			continue
		}
		name := fmt.Sprintf("wide=%t/spread=%t/rows=%d/tokens=%d", s.wide, s.spread, s.rows, s.tokens)
		b.Run(name, func(b *testing.B) {
			const times = 200
			var best time.Duration
			for b.Loop() {
				start := time.Now()
				s.multiply(13, 251, times)
				if took := time.Since(start); best == 0 || took < best {
					best = took
				}
			}
			b.ReportMetric(2*32*shapeGroups*times*float64(s.rows*s.tokens)/best.Seconds()/1e9, "Gop/s")
		})
	}
}
