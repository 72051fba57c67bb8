package tiled

import (
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/quant"
)

var highPlanes = []Plane{High4, High3, High2}

// inPlanes returns a matrix of random rows and its planes.
func inPlanes(t testing.TB, typ quant.Type, high Plane, rows, cols int) (whole *Matrix, planes *Planes, src []byte) {
	src = randomRows(typ, rows, cols, 7)
	whole = packed(t, typ, src, rows, cols)
	plane := func(p Plane) Matrix {
		m := *whole
		m.Data = make([]byte, len(whole.Data)/typ.BlockBytes()*p.BlockBytes(typ))
		SplitPlane(m.Data, p, typ, whole.Data)
		return m
	}
	return whole, &Planes{High: plane(high), Low: plane(high.Other()), Plane: high}, src
}

// forEachPlane calls check with all high planes of all types that have some.
func forEachPlane(check func(typ quant.Type, high Plane)) {
	for _, typ := range slices.Sorted(maps.Keys(formats)) {
		for _, high := range highPlanes {
			if high.Of(typ) {
				check(typ, high)
			}
		}
	}
}

// TestTypesHavePlanes checks which types can be stored in planes.
func TestTypesHavePlanes(t *testing.T) {
	for _, typ := range []quant.Type{quant.Q4_0, quant.Q4_1, quant.Q4_K, quant.Q5_K, quant.Q6_K, quant.IQ4_NL} {
		require.True(t, High3.Of(typ) && High2.Of(typ) && !High4.Of(typ), "%s", typ)
	}
	require.True(t, High4.Of(quant.Q8_0) && !High3.Of(quant.Q8_0))
	require.False(t, High3.Of(quant.MXFP4) || High3.Of(quant.I4Z) || High3.Of(quant.F16) || numPlanes.Of(quant.Q4_0))
}

// TestPlanesAreLossless checks that both planes have together the bits of the whole codes, and that no
// bit is in both, with the kernels of every path.
func TestPlanesAreLossless(t *testing.T) {
	for _, path := range append(paths(), morePaths...) {
		usePath(t, path)
		forEachPlane(func(typ quant.Type, high Plane) {
			whole, planes, _ := inPlanes(t, typ, high, 37, 512)
			require.Equal(t, len(whole.Data), len(planes.High.Data)+len(planes.Low.Data), "%s, plane %d", typ, high)
			joined := make([]byte, len(whole.Data))
			JoinPlanes(joined, high, typ, planes.High.Data, planes.Low.Data)
			require.Equal(t, whole.Data, joined, "%s, plane %d", typ, high)
			JoinPlanes(joined, high, typ, planes.High.Data, nil)
			filled := make([]byte, len(joined))
			usePath(t, portable{})
			JoinPlanes(filled, high, typ, planes.High.Data, nil)
			require.Equal(t, filled, joined, "%s, plane %d without low bits", typ, high)
			usePath(t, path)
		})
	}
}

// TestMultiplyPlanes checks that products of two planes have the bits of the whole codes' products in
// portable Go, and that those of the high plane are products of what it stands for.
func TestMultiplyPlanes(t *testing.T) {
	const rows, cols = 40, 256
	forEachPath(t, func(t *testing.T, path kernels) {
		usePath(t, path)
		forEachPlane(func(typ quant.Type, high Plane) {
			whole, planes, src := inPlanes(t, typ, high, rows, cols)
			middle, off := middleRows(t, typ, high, src)
			for _, tokens := range []int{1, 2, 5, 17} {
				name := fmt.Sprintf("%s, plane %d, %d tokens", typ, high, tokens)
				x := randomVector(tokens*cols, 3)
				a := activationsOf(x, cols, tokens)
				s, joined := NewScratch(tokens), make([]byte, JoinedBytes(typ, cols))
				want, got := products(portable{}, whole, x, tokens), make([]float32, tokens*rows)
				MultiplyPlanes(got, planes, 0, 2, a, s, joined)
				MultiplyPlanes(got, planes, 2, 3, a, s, joined)
				requireSame(t, want, got, "%s", name)

				usePath(t, portable{})
				MultiplyHigh(want, planes, 0, whole.Tiles(), activationsOf(x, cols, tokens), s, joined) // paths order elements differently
				usePath(t, path)
				MultiplyHigh(got, planes, 0, whole.Tiles(), a, s, joined)
				requireSame(t, want, got, "high plane of %s", name)
				held := rounded(x)
				for i := range got {
					var exact, most float64
					for k, x := range held[i/rows*cols : (i/rows+1)*cols] {
						w := i%rows*cols + k
						exact += float64(middle[w]) * float64(x)
						most += math.Abs(float64(off[w]) * float64(x))
					}
					require.InDelta(t, exact, got[i], 1e-4*math.Abs(exact)+2e-3+most, "%s: result %d", name, i)
				}
			}
		})
	})
}

// rounded returns x as activations hold it.
func rounded(x []float32) []float32 {
	held := make([]float32, len(x))
	for i := 0; i < len(x); i += GroupElems {
		var codes [GroupElems]int8
		scale := quantizeGroup(&codes, x[i:i+GroupElems])
		for j, c := range codes {
			held[i+j] = float32(c) * scale
		}
	}
	return held
}

// middleRows returns what the high plane of rows stands for: the mean of the interval of each code, or in
// formats that multiply with low bits, codes with those. off is by how much the tables may be off.
func middleRows(t *testing.T, typ quant.Type, high Plane, src []byte) (values, off []float32) {
	f, mask := formats[typ], uint8(1<<planeInfos[high].low-1)
	dequant := func(code func(i int, c uint8) uint8) []float32 {
		rows := slices.Clone(src)
		for b := 0; b < len(rows); b += typ.BlockBytes() {
			var r rowBlock
			f.split(&r, rows[b:][:typ.BlockBytes()])
			for i := range typ.BlockElems() {
				r.code[i] = code(i, r.code[i])
			}
			f.join(&r, rows[b:][:typ.BlockBytes()])
		}
		out := make([]float32, len(rows)/typ.BlockBytes()*typ.BlockElems())
		quant.DequantRow(typ, out, rows)
		return out
	}
	if f.bits == 8 || f.bits == 4 && !f.hasMin() {
		values = make([]float32, len(src)/typ.BlockBytes()*typ.BlockElems())
		for low := range mask + 1 {
			for i, v := range dequant(func(_ int, c uint8) uint8 { return c&^mask | low }) {
				values[i] += v / float32(mask+1)
			}
		}
		unit := dequant(func(int, uint8) uint8 { return map[bool]uint8{true: uint8(f.zero + 1), false: 8}[f.bits == 8] })
		off = unit
		if f.table == &evenly {
			off = make([]float32, len(values))
		}
		return values, off
	}
	second := map[Plane]uint8{High3: 1, High2: 2}[high] // of the other half of each group
	values = dequant(func(i int, c uint8) uint8 { return c&^mask | second - uint8(1-i%GroupElems/(GroupElems/2)) })
	require.NotEmpty(t, values)
	return values, make([]float32, len(values))
}

// BenchmarkPlanesFromMemory multiplies matrices that are larger than caches with one token, on all threads of -cpu. Its
// GB/s are those of the bytes that are read: of a plane, or of both.
func BenchmarkPlanesFromMemory(b *testing.B) {
	const rows, cols = 24576, 4096
	for _, kind := range []struct {
		t    quant.Type
		high Plane
	}{{quant.Q8_0, High4}, {quant.Q4_0, High3}, {quant.Q4_0, High2}, {quant.Q4_K, High3}} {
		whole, planes, _ := inPlanes(b, kind.t, kind.high, rows, cols)
		a := activationsOf(randomVector(cols, 3), cols, 1)
		y := make([]float32, rows)
		run := func(name string, bytes int, multiply func(t0, t1 int, s *Scratch, joined []byte)) {
			b.Run(fmt.Sprintf("%s/plane=%d/%s", kind.t, kind.high, name), func(b *testing.B) {
				b.SetBytes(int64(bytes))
				threads := runtime.GOMAXPROCS(0)
				for b.Loop() {
					var wg sync.WaitGroup
					for i := range threads {
						wg.Go(func() {
							multiply(i*whole.Tiles()/threads, (i+1)*whole.Tiles()/threads, NewScratch(1), make([]byte, JoinedBytes(whole.Type, cols)))
						})
					}
					wg.Wait()
				}
			})
		}
		run("whole", len(whole.Data), func(t0, t1 int, s *Scratch, _ []byte) { Multiply(y, whole, t0, t1, a, s) })
		run("both", len(whole.Data), func(t0, t1 int, s *Scratch, joined []byte) { MultiplyPlanes(y, planes, t0, t1, a, s, joined) })
		run("high", len(planes.High.Data), func(t0, t1 int, s *Scratch, joined []byte) { MultiplyHigh(y, planes, t0, t1, a, s, joined) })
	}
}

func BenchmarkPlanes(b *testing.B) {
	const rows, cols = 512, 4096
	forEachPlane(func(typ quant.Type, high Plane) {
		whole, planes, _ := inPlanes(b, typ, high, rows, cols)
		for _, tokens := range []int{1, 4, 17} {
			a := activationsOf(randomVector(tokens*cols, 3), cols, tokens)
			s, joined := NewScratch(tokens), make([]byte, JoinedBytes(whole.Type, cols))
			y := make([]float32, tokens*rows)
			run := func(kind string, multiply func()) {
				b.Run(fmt.Sprintf("%s/plane=%d/tokens=%d/%s", typ, high, tokens, kind), func(b *testing.B) {
					b.SetBytes(int64(len(whole.Data)))
					for b.Loop() {
						multiply()
					}
				})
			}
			run("whole", func() { Multiply(y, whole, 0, whole.Tiles(), a, s) })
			run("both", func() { MultiplyPlanes(y, planes, 0, whole.Tiles(), a, s, joined) })
			run("high", func() { MultiplyHigh(y, planes, 0, whole.Tiles(), a, s, joined) })
		}
	})
}
