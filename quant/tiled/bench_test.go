package tiled

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/limits"
)

// benchTypes holds the most common types of published models.
var benchTypes = []quant.Type{quant.Q4_0, quant.Q8_0, quant.Q4_K, quant.Q5_K, quant.Q6_K, quant.IQ4_NL, quant.MXFP4}

// fastest returns the shortest time of run. On a busy machine, longer times include the
// time of other programs.
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

// peakSeen is the highest rate of one core so far, in operations per second.
var peakSeen float64

// corePeak measures the rate of one core and returns the highest rate so far, in operations
// per second. Benchmarks call it between measurements of kernels.
func corePeak() float64 {
	peak, _, err := limits.Int8Peak(1)
	if err != nil {
		panic(err)
	}
	peakSeen = max(peakSeen, peak)
	return peakSeen
}

// BenchmarkPanel multiplies one worker's tiles of rows with a prompt and reports the rate
// as a fraction of the core's peak.
func BenchmarkPanel(b *testing.B) {
	const rows, cols = 512, 2048
	for _, typ := range benchTypes {
		m := benchMatrix(typ, rows, cols)
		for _, tokens := range []int{1, 2, 4, 8, 16, 64, 512} {
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
	m := &Matrix{Type: typ, Rows: rows, Cols: cols, Data: make([]byte, n)}
	Pack(m.Data, typ, randomRows(typ, rows, cols, 1), rows, cols)
	return m
}

// BenchmarkVec multiplies matrices that are larger than most caches with one token. Each
// thread alternates between only reading a part of the matrix and multiplying with a part.
// The ratio of the median rates is the fraction of the read bandwidth that GEMV reaches;
// other load on the machine affects both rates alike.
func BenchmarkVec(b *testing.B) {
	memory := limits.NewMemory(limits.SweepBytes)
	for _, threads := range []int{1, 2} {
		for _, typ := range benchTypes {
			b.Run(fmt.Sprintf("threads=%d/%s", threads, typ), func(b *testing.B) { benchStream(b, memory, typ, threads, 1) })
		}
	}
}

// BenchmarkVecs is BenchmarkVec for several tokens and two threads.
func BenchmarkVecs(b *testing.B) {
	memory := limits.NewMemory(limits.SweepBytes)
	for _, typ := range benchTypes {
		for _, tokens := range []int{2, 4, 8, 16} {
			b.Run(fmt.Sprintf("%s/tokens=%d", typ, tokens), func(b *testing.B) { benchStream(b, memory, typ, 2, tokens) })
		}
	}
}

// benchStream multiplies a matrix that fills memory, and reports the bytes read and their fraction
// of the read bandwidth.
func benchStream(b *testing.B, memory []byte, typ quant.Type, threads, tokens int) {
	const cols = 2048
	a := activationsOf(randomVector(tokens*cols, 2), cols, tokens)
	m := fillMatrix(memory, typ, cols)
	y := make([]float32, tokens*m.Rows)
	var read, product float64 // bytes per second, summed over threads
	for b.Loop() {
		r, p := readAndMultiply(threads, y, m, a)
		read, product = max(read, r), max(product, p)
	}
	b.ReportMetric(product/1e9, "GB/s")
	b.ReportMetric(100*product/read, "%read")
}

// fillMatrix returns a matrix that fills memory; its rows repeat.
func fillMatrix(memory []byte, typ quant.Type, cols int) *Matrix {
	some := benchMatrix(typ, 64*TileRows, cols)
	count := len(memory) / len(some.Data)
	for i := range count {
		copy(memory[i*len(some.Data):], some.Data)
	}
	return &Matrix{Type: typ, Rows: count * some.Rows, Cols: cols, Data: memory[:count*len(some.Data)]}
}

// readAndMultiply distributes parts of m over threads. It only reads every second part and
// multiplies with the others, and returns both rates.
func readAndMultiply(threads int, y []float32, m *Matrix, a *Activations) (read, product float64) {
	const tiles = 64
	partBytes := len(m.Data) / m.Tiles() * tiles
	rates := make([][2]float64, threads)
	var next atomic.Int64
	var done sync.WaitGroup
	for thread := range threads {
		done.Go(func() {
			s := NewScratch(a.tokens)
			var times [2][]time.Duration
			for {
				part := int(next.Add(1)) - 1
				if (part+1)*tiles > m.Tiles() {
					break
				}
				start := time.Now()
				if part%2 == 0 {
					limits.Read(m.Data[part*partBytes:][:partBytes])
				} else {
					Multiply(y, m, part*tiles, (part+1)*tiles, a, s)
				}
				times[part%2] = append(times[part%2], time.Since(start))
			}
			for i, t := range times {
				slices.Sort(t)
				rates[thread][i] = float64(partBytes) / t[len(t)/2].Seconds()
			}
		})
	}
	done.Wait()
	for _, rate := range rates {
		read += rate[0]
		product += rate[1]
	}
	return read, product
}

// BenchmarkTile compares token counts of a tile on a panel that is decoded once.
func BenchmarkTile(b *testing.B) {
	const cols = panelGroups * GroupElems
	for _, typ := range benchTypes[:1] {
		m, f := benchMatrix(typ, TileRows, cols), formats[typ]
		for _, width := range []int{1, 2, 4, 8, 16} {
			b.Run(fmt.Sprintf("%s/tokens=%d", typ, width), func(b *testing.B) {
				a := activationsOf(randomVector(width*cols, 2), cols, width)
				s := NewScratch(width)
				s.use(0, width)
				active.decode(&s.panel, f, m.Data, cols/typ.BlockElems())
				const times = 16 // exceeds the resolution of the clock
				took := fastest(b, func() {
					for range times {
						s.multiplyPanel(f, a, 0, panelGroups)
					}
				})
				rate := 2 * TileRows * cols * times * float64(width) / took.Seconds()
				b.ReportMetric(rate/1e9, "Gop/s")
				b.ReportMetric(100*rate/corePeak(), "%peak")
			})
		}
	}
}
