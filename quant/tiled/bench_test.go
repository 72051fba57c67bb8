package tiled

import (
	"fmt"
	"sync"
	"sync/atomic"
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

// peakSeen is the best that one core was seen to do.
var peakSeen float64

// corePeak returns the most operations a second that one core has done up to
// now. It measures again at every call, between measurements of kernels.
func corePeak() float64 {
	peak, _, err := limits.Int8Peak(1)
	if err != nil {
		panic(err)
	}
	peakSeen = max(peakSeen, peak)
	return peakSeen
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
				took := fastest(b, func() { Multiply(y, m, 0, m.Tiles(), a, s) })
				rate := 2 * rows * cols * float64(tokens) / took.Seconds()
				b.ReportMetric(rate/1e9, "Gop/s")
				b.ReportMetric(100*rate/corePeak(), "%peak")
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

// BenchmarkVec multiplies a matrix that is larger than most caches with one
// token and reports the bytes read as a fraction of what sweeps read from the
// same memory.
func BenchmarkVec(b *testing.B) {
	const cols = 2048
	memory := limits.NewMemory(limits.SweepBytes)
	x := randomVector(cols, 2)
	for _, threads := range []int{1, 2} {
		for _, typ := range benchTypes {
			b.Run(fmt.Sprintf("threads=%d/%s", threads, typ), func(b *testing.B) {
				m := fillMatrix(memory, typ, cols)
				a := activationsOf(x, cols, 1)
				y := make([]float32, m.Rows)
				sweep, err := limits.ReadBandwidth(memory, threads)
				if err != nil {
					b.Fatal(err)
				}
				took := fastest(b, func() { multiplyBy(threads, y, m, a) })
				again, _ := limits.ReadBandwidth(memory, threads)
				rate := float64(len(m.Data)) / took.Seconds()
				b.ReportMetric(rate/1e9, "GB/s")
				b.ReportMetric(100*rate/max(sweep, again), "%sweep")
			})
		}
	}
}

// fillMatrix fills memory with a matrix whose rows repeat.
func fillMatrix(memory []byte, typ quant.Type, cols int) *Matrix {
	some := benchMatrix(typ, 64*TileRows, cols)
	count := len(memory) / len(some.Data)
	for i := range count {
		copy(memory[i*len(some.Data):], some.Data)
	}
	return &Matrix{typ, count * some.Rows, cols, memory[:count*len(some.Data)]}
}

// multiplyBy divides the tiles of m over threads, which take some in turn.
func multiplyBy(threads int, y []float32, m *Matrix, a *Activations) {
	const part = 64
	var next atomic.Int64
	var done sync.WaitGroup
	for range threads {
		done.Go(func() {
			s := NewScratch(1)
			for {
				t := int(next.Add(part)) - part
				if t >= m.Tiles() {
					return
				}
				Multiply(y, m, t, min(t+part, m.Tiles()), a, s)
			}
		})
	}
	done.Wait()
}
