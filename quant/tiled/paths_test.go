package tiled

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/quant"
)

// usePath makes path the active one until the test ends.
func usePath(t testing.TB, path kernels) {
	previous := active
	active = path
	t.Cleanup(func() { active = previous })
}

// morePaths are paths that the machine runs in tests only.
var morePaths []kernels

// fastPaths returns every path of this machine except the portable one.
func fastPaths() []kernels {
	return slices.DeleteFunc(append(paths(), morePaths...), func(path kernels) bool { return path == portable{} })
}

// forEachPath runs check on every path of this machine except the portable one.
func forEachPath(t *testing.T, check func(t *testing.T, path kernels)) {
	for _, path := range fastPaths() {
		t.Run(fmt.Sprintf("%T", path), func(t *testing.T) { check(t, path) })
	}
}

// products quantizes x and computes a matmul on a path.
func products(path kernels, m *Matrix, x []float32, tokens int) []float32 {
	previous := active
	active = path
	defer func() { active = previous }()
	y := make([]float32, tokens*m.Rows)
	Multiply(y, m, 0, m.Tiles(), activationsOf(x, m.Cols, tokens), NewScratch(tokens))
	return y
}

// requireSame requires the same bits, or two values that are both not finite.
func requireSame(t *testing.T, want, got []float32, format string, args ...any) {
	t.Helper()
	for i := range want {
		w, g := math.Float32bits(want[i]), math.Float32bits(got[i])
		finite := w&^signMask < infBits
		if w != g && (finite || g&^signMask < infBits) {
			require.Failf(t, "results differ", "element %d: %v, portable %v; %s", i, got[i], want[i], fmt.Sprintf(format, args...))
		}
	}
}

// requirePathsAgree requires the same bits of every path as of the portable one, which is much
// slower than the others and so computes once for all of them.
func requirePathsAgree(t *testing.T, m *Matrix, x []float32, tokens int, format string, args ...any) {
	t.Helper()
	fast := fastPaths()
	if len(fast) == 0 {
		t.Skip("there is no path but the portable one")
	}
	want := products(portable{}, m, x, tokens)
	for _, path := range fast {
		requireSame(t, want, products(path, m, x, tokens), "%T: %s", path, fmt.Sprintf(format, args...))
	}
}

// TestPathsAgree checks that every path computes the same bits as the portable path.
func TestPathsAgree(t *testing.T) {
	ramp := func(n int, f func(i int) float32) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = f(i)
		}
		return x
	}
	cases := []struct {
		name               string
		rows, cols, tokens int
		x                  func(n int) []float32 // nil = random
	}{
		{name: "one block, one row", rows: 1, cols: 32, tokens: 1},
		{name: "vector", rows: 48, cols: 2048, tokens: 1},
		{name: "odd rows", rows: 33, cols: 768, tokens: 3},
		{name: "more tiles than one write of results", rows: (resultTiles+2)*TileRows + 5, cols: 256, tokens: 3},
		{name: "more tiles than one kernel call", rows: (smallTiles+2)*TileRows + 5, cols: 256, tokens: 1},
		{name: "more tiles than one small-N call", rows: (smallTiles+3)*TileRows + 5, cols: 256, tokens: 7},
		{name: "longer than a panel", rows: 17, cols: 1024 + 256, tokens: 5},
		{name: "zeros", rows: 16, cols: 256, tokens: 4, x: func(n int) []float32 { return make([]float32, n) }},
		{name: "some groups zero", rows: 16, cols: 512, tokens: 2, x: func(n int) []float32 {
			return ramp(n, func(i int) float32 { return float32(i / 32 % 2 * (i%7 - 3)) })
		}},
		{name: "largest codes", rows: 16, cols: 512, tokens: 3, x: func(n int) []float32 {
			return ramp(n, func(i int) float32 { return float32(1 - i%2*2) })
		}},
		{name: "all equal", rows: 16, cols: 512, tokens: 1, x: func(n int) []float32 {
			return ramp(n, func(int) float32 { return -3 })
		}},
		{name: "tiny", rows: 16, cols: 256, tokens: 2, x: func(n int) []float32 {
			return ramp(n, func(i int) float32 { return float32(math.Ldexp(float64(i%5-2), -60-i/4)) })
		}},
		{name: "infinite", rows: 16, cols: 512, tokens: 2, x: func(n int) []float32 {
			return ramp(n, func(i int) float32 { return float32(i%9) / float32((i+1)%512) })
		}},
		{name: "not a number", rows: 16, cols: 512, tokens: 2, x: func(n int) []float32 {
			return ramp(n, func(i int) float32 { return float32(math.Sqrt(float64(500 - i%512))) })
		}},
	}
	for _, groups := range []int{1, 3, 8, 32 + 5, 64 + 8} { // also whole K blocks
		for _, tokens := range []int{32, 48 + 1, 48 + 2, 48 + 4, 48 + 7, 48 + 15} {
			cases = append(cases, struct {
				name               string
				rows, cols, tokens int
				x                  func(n int) []float32
			}{name: fmt.Sprintf("%d groups, %d tokens", groups, tokens), rows: 17, cols: groups * GroupElems, tokens: tokens})
		}
	}
	for tokens := 1; tokens <= 40; tokens += 1 + tokens/8 {
		cases = append(cases, struct {
			name               string
			rows, cols, tokens int
			x                  func(n int) []float32
		}{name: fmt.Sprintf("%d tokens", tokens), rows: 32, cols: 256, tokens: tokens})
	}
	for typ := range formats {
		for i, c := range cases {
			if stride := testutil.Effort(9, 1); formats[typ].low != nil && i%stride != int(typ)%stride {
				continue // low-bit formats have few products of their own; each has cases of every width
			}
			if testing.Short() && i%3 != int(typ)%3 {
				continue
			}
			cols := max(c.cols, typ.BlockElems()) / typ.BlockElems() * typ.BlockElems()
			m := packed(t, typ, randomRows(typ, c.rows, cols, 7), c.rows, cols)
			x := randomVector(c.tokens*cols, 8)
			if c.x != nil {
				x = c.x(c.tokens * cols)
			}
			requirePathsAgree(t, m, x, c.tokens, "%s, %s", typ, c.name)
		}
	}
}

// TestPathsAgreeOnEveryWidth checks all numbers of tokens up to a tile, with rows that do not fill their
// last tile, on the types of most models.
func TestPathsAgreeOnEveryWidth(t *testing.T) {
	const rows, cols = TileRows + 7, 512
	for _, typ := range []quant.Type{quant.Q4_0, quant.Q8_0, quant.Q4_K, quant.Q6_K} {
		m := packed(t, typ, randomRows(typ, rows, cols, 3), rows, cols)
		x := randomVector(TileTokens*cols, 4)
		for tokens := 1; tokens <= TileTokens; tokens++ {
			requirePathsAgree(t, m, x[:tokens*cols], tokens, "%s, %d tokens", typ, tokens)
		}
	}
}

// TestPathsAgreeOnExtremeWeights checks that paths agree on blocks that contain only the
// smallest or the largest bytes, with every kind of finite scale and with random and
// with the largest activations, whose products fill the 16 bits that AVX2 adds them in.
func TestPathsAgreeOnExtremeWeights(t *testing.T) {
	halves := []uint16{0, 0x8000, 1, 0x8001, 0x03FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF}
	const rows, cols = 16, 512
	random, positive, negative := randomVector(35*cols, 9), make([]float32, 35*cols), make([]float32, 35*cols)
	for i := range positive {
		positive[i], negative[i] = 1, -1
	}
	for typ, f := range formats {
		for _, fill := range []byte{0, 0x0F, 0x70, 0x80, 0xF0, 0xFF} {
			n, _ := typ.RowBytes(cols)
			src := make([]byte, rows*n)
			for b := 0; b < len(src); b += typ.BlockBytes() {
				block := src[b:][:typ.BlockBytes()]
				for i := range block {
					block[i] = fill
				}
				var r rowBlock
				f.split(&r, block)
				r.half[0], r.half[1] = halves[b%len(halves)], halves[b/3%len(halves)]
				r.exponent = byte(b)%200 + byte(b%3) // 0 and 1 are subnormal
				f.join(&r, block)
			}
			m := packed(t, typ, src, rows, cols)
			for _, tokens := range []int{1, 2, 3, 8, 35} {
				if stride := testutil.Effort(3, 1); f.low != nil && (int(fill)+tokens)%stride != 0 {
					continue
				}
				for _, x := range [][]float32{random, positive, negative} {
					requirePathsAgree(t, m, x[:tokens*cols], tokens, "%s of %#x, %d tokens", typ, fill, tokens)
				}
			}
		}
	}
}

// TestNonFiniteActivationsPropagate checks that an infinity or NaN in the activations makes
// the results not finite.
func TestNonFiniteActivationsPropagate(t *testing.T) {
	const cols = 256
	for _, path := range paths() {
		for _, bad := range []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())} {
			for typ := range formats {
				m := packed(t, typ, randomRows(typ, 16, cols, 11), 16, cols)
				x := randomVector(cols, 12)
				x[77] = bad
				for row, y := range products(path, m, x, 1) {
					require.True(t, math.IsNaN(float64(y)) || math.IsInf(float64(y), 0), "%s: row %d of %s is %v", path.name(), row, typ, y)
				}
			}
		}
	}
}

// TestFormatsHaveMinOrZero checks that every format has either a min or a zero point, and
// that Activations hold the initial sums for each zero point.
func TestFormatsHaveMinOrZero(t *testing.T) {
	a := activationsOf(randomVector(256, 1), 256, 1)
	for typ, f := range formats {
		require.Equal(t, f.hasMin(), f.zero == 0, "%s", typ)
		require.Equal(t, f.hasMin(), a.startAt(f, 0) == nil, "%s", typ)
		require.Equal(t, f.halfGroups() && f.low == nil, f.zero == halfZero, "%s", typ)
		require.Equal(t, f.bits == 4, f.table != nil, "%s", typ)
	}
}

// FuzzMultiply checks that all paths agree on arbitrary bytes.
func FuzzMultiply(f *testing.F) {
	types := slices.Sorted(maps.Keys(formats))
	for i := range types {
		f.Add(uint8(i), uint8(2+i), uint8(i), []byte{1, 2, 3, 255, 128, 0, 7, 0x3C})
	}
	f.Fuzz(func(t *testing.T, typ, rows, tokens uint8, data []byte) {
		if len(data) == 0 {
			t.Skip("no input bytes for weights and activations")
		}
		const cols = 512
		typed, nRows, nTokens := types[int(typ)%len(types)], int(rows%40+1), int(tokens%20+1)
		n, err := typed.RowBytes(cols)
		require.NoError(t, err)
		src, x := make([]byte, nRows*n), make([]float32, nTokens*cols)
		for i := range src {
			src[i] = data[i%len(data)] + byte(i/len(data))
		}
		for i := range x {
			x[i] = float32(int8(data[(i+i/len(data))%len(data)])) / 16
		}
		finiteScales(typed, src)
		m := packed(t, typed, src, nRows, cols)
		want := products(portable{}, m, x, nTokens)
		for _, path := range paths() {
			requireSame(t, want, products(path, m, x, nTokens), "%s, %d rows, %d tokens", path.name(), nRows, nTokens)
		}
	})
}

// finiteScales replaces scales that are not finite, or so large that a result may overflow.
func finiteScales(t quant.Type, rows []byte) {
	f := formats[t]
	for b := 0; b < len(rows); b += t.BlockBytes() {
		var r rowBlock
		f.split(&r, rows[b:][:t.BlockBytes()])
		for i := range r.half {
			r.half[i] &^= 0x4000 // below 2
		}
		r.exponent %= 200
		f.join(&r, rows[b:][:t.BlockBytes()])
	}
}

// TestDecodingDoesNotAllocate checks that quantization and products of one or two tokens do
// not allocate.
func TestDecodingDoesNotAllocate(t *testing.T) {
	const rows, cols = 32, 512
	x := randomVector(2*cols, 1)
	for _, path := range paths() {
		usePath(t, path)
		for typ := range formats {
			m := packed(t, typ, randomRows(typ, rows, cols, 1), rows, cols)
			for _, tokens := range []int{1, 2} {
				a, s := activationsOf(x, cols, tokens), NewScratch(tokens)
				y := make([]float32, tokens*rows)
				allocs := testutil.AllocsPerRun(2, 0, func() {
					a.Set(0, x[:cols])
					Multiply(y, m, 0, m.Tiles(), a, s)
				})
				require.Zero(t, allocs, "%s, %s, %d tokens", path.name(), typ, tokens)
			}
		}
	}
}
