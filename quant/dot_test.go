package quant

import (
	"math/rand/v2"
	"testing"
)

// sizes holds row lengths around the lane and register widths of the kernels.
var sizes = []int{0, 1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 80, 100, 127, 128, 256, 300, 1024}

// twinOf returns the portable path that defines the results of path.
func twinOf(path kernels) portable { return portable{path.flavour()} }

// TestDotMatchesTwin checks that Dot has the same bits on every path and its twin.
func TestDotMatchesTwin(t *testing.T) {
	forEachPath(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 1))
		for _, n := range sizes {
			a, b := spread(rng, n), spread(rng, n)
			want := twinOf(active).dot(a, b)
			requireBits(t, []float32{want}, []float32{Dot(a, b)}, "n=%d", n)
		}
	})
}

// TestMulRowsF32MatchesTwin checks that MulRowsF32 matches its twin for every remainder of
// the register tiles, with strides larger than the rows.
func TestMulRowsF32MatchesTwin(t *testing.T) {
	forEachPath(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(2, 1))
		for _, cols := range sizes {
			for _, rows := range []int{1, 2, 3, 4, 5, 7, 8, 9, 13} {
				for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 9} {
					wStride, xStride, yStride := cols+3, cols+5, rows+2
					w, x := spread(rng, rows*wStride), spread(rng, n*xStride)
					want, got := filled(n*yStride), filled(n*yStride)
					twinOf(active).mulF32(want, yStride, w, wStride, rows, cols, x, xStride, n)
					MulRowsF32(got, yStride, w, wStride, rows, cols, x, xStride, n)
					requireBits(t, want, got, "rows=%d cols=%d n=%d", rows, cols, n)
				}
			}
		}
	})
}

// TestWeightedSumMatchesTwin checks that WeightedSum has the same bits on every path and
// its twin.
func TestWeightedSumMatchesTwin(t *testing.T) {
	forEachPath(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 1))
		for _, d := range sizes[1:] {
			for _, n := range []int{1, 2, 4, 5, 9} {
				for _, tokens := range []int{1, 2, 5, 17} {
					oStride, pStride, vStride := d+1, tokens+2, d+3
					start, p, v := spread(rng, n*oStride), spread(rng, n*pStride), spread(rng, tokens*vStride)
					want, got := append([]float32(nil), start...), append([]float32(nil), start...)
					twinOf(active).weightedSum(want, oStride, p, pStride, v, vStride, tokens, d, n)
					WeightedSum(got, oStride, p, pStride, v, vStride, tokens, d, n)
					requireBits(t, want, got, "d=%d n=%d tokens=%d", d, n, tokens)
				}
			}
		}
	})
}

// TestMulRowsMatchesDecodedRows checks that MulRows equals Dot of the rows decoded to
// float32, for every format.
func TestMulRowsMatchesDecodedRows(t *testing.T) {
	forEachPath(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(4, 1))
		for format := F32; format < numTypes; format++ {
			for _, cols := range []int{256, 768, 100, 16} {
				if cols%format.BlockElems() != 0 {
					continue
				}
				for _, n := range []int{1, 3, 8} {
					checkMulRows(t, rng, format, 37, cols, n)
				}
			}
		}
	})
}

// checkMulRows multiplies a range of rows in two parts and compares the results with the
// twin's Dot of rows from the portable decoder.
func checkMulRows(t *testing.T, rng *rand.Rand, format Type, rows, cols, n int) {
	t.Helper()
	w := randomRows(rng, format, rows, cols)
	rowBytes := len(w) / rows
	x := randomFloats(rng, n*cols)
	want, got := filled(n*rows), filled(n*rows)
	row := make([]float32, cols)
	for r := 1; r < rows; r++ {
		dequantPortable(format, row, w[r*rowBytes:][:rowBytes])
		for b := range n {
			want[b*rows+r] = twinOf(active).dot(row, x[b*cols:][:cols])
		}
	}
	s := NewScratch(cols)
	split := 1 + rng.IntN(rows-1)
	MulRows(got, rows, format, w, cols, 1, split, x, n, s)
	MulRows(got, rows, format, w, cols, split, rows, x, n, s)
	requireBits(t, want, got, "%s rows=%d cols=%d n=%d", format, rows, cols, n)
}

// TestBatchInvariance checks that the result for a token does not depend on the other
// tokens of the batch, and that the result of a row does not depend on the range of rows.
func TestBatchInvariance(t *testing.T) {
	const rows, cols, n = 29, 208, 11
	forEachPath(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(5, 1))
		w, x := randomRows(rng, BF16, rows, cols), randomFloats(rng, n*cols)
		s := NewScratch(cols)
		whole := make([]float32, n*rows)
		MulRows(whole, rows, BF16, w, cols, 0, rows, x, n, s)
		for b := range n {
			alone := make([]float32, rows)
			MulRows(alone, rows, BF16, w, cols, 0, rows, x[b*cols:], 1, s)
			requireBits(t, alone, whole[b*rows:][:rows], "token %d", b)
		}
	})
}

// TestMulRowsRejectsWrongSizes checks that MulRows panics on wrong sizes, so kernels never
// access memory beyond a slice.
func TestMulRowsRejectsWrongSizes(t *testing.T) {
	s := NewScratch(64)
	f := func(n int) []float32 { return make([]float32, n) }
	calls := map[string]func(){
		"few weights":    func() { MulRows(f(8), 4, Q8_0, make([]byte, 67), 32, 0, 2, f(64), 2, s) },
		"few inputs":     func() { MulRows(f(8), 4, Q8_0, make([]byte, 68), 32, 0, 2, f(63), 2, s) },
		"few outputs":    func() { MulRows(f(5), 4, Q8_0, make([]byte, 68), 32, 0, 2, f(64), 2, s) },
		"partial block":  func() { MulRows(f(8), 4, Q8_0, make([]byte, 68), 33, 0, 2, f(66), 2, s) },
		"negative row":   func() { MulRows(f(8), 4, Q8_0, make([]byte, 68), 32, -1, 2, f(64), 2, s) },
		"f32 weights":    func() { MulRowsF32(f(8), 4, f(63), 32, 2, 32, f(64), 32, 2) },
		"f32 inputs":     func() { MulRowsF32(f(8), 4, f(64), 32, 2, 32, f(63), 32, 2) },
		"weighted sum":   func() { WeightedSum(f(8), 8, f(3), 4, f(32), 8, 4, 8, 1) },
		"dot":            func() { Dot(f(4), f(3)) },
		"decode":         func() { DequantRow(Q8_0, f(32), make([]byte, 33)) },
		"decode partial": func() { DequantRow(Q8_0, f(31), make([]byte, 34)) },
	}
	for name, call := range calls {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: accepted", name)
				}
			}()
			call()
		}()
	}
}

// FuzzMulRows checks that every path matches its twin on arbitrary weights.
func FuzzMulRows(f *testing.F) {
	f.Add(uint8(Q4_K), uint8(2), uint8(1), uint64(1), []byte("some weights"))
	f.Add(uint8(F32), uint8(5), uint8(4), uint64(2), []byte{0, 0, 0x80, 0x7f})
	f.Fuzz(func(t *testing.T, format, rows, n uint8, seed uint64, pattern []byte) {
		kind := F32 + Type(format)%(numTypes-1)
		height, tokens := 1+int(rows)%19, 1+int(n)%9
		cols := kind.BlockElems() * (1 + int(seed%3))
		rng := rand.New(rand.NewPCG(seed, 6))
		w := randomRows(rng, kind, height, cols)
		for i, b := range pattern {
			w[(i*7+int(seed%11))%len(w)] = b // includes NaNs and infinities
		}
		x := spread(rng, tokens*cols)
		decoded := make([]float32, height*cols)
		dequantPortable(kind, decoded, w)
		for _, path := range supportedPaths() {
			usePath(t, path)
			want, got := make([]float32, tokens*height), make([]float32, tokens*height)
			twinOf(path).mulF32(want, height, decoded, cols, height, cols, x, cols, tokens)
			MulRows(got, height, kind, w, cols, 0, height, x, tokens, NewScratch(cols))
			requireBits(t, want, got, "%s %s rows=%d cols=%d n=%d", path.name(), kind, height, cols, tokens)
		}
	})
}

// filled returns n elements with a value that no kernel computes, so that tests detect
// writes outside the result.
func filled(n int) []float32 {
	values := make([]float32, n)
	for i := range values {
		values[i] = -12345
	}
	return values
}

// spread returns values of very different magnitudes, zeros of both signs and tiny numbers
// whose products underflow. These values expose a wrong order of operations and wrong
// rounding.
func spread(rng *rand.Rand, n int) []float32 {
	values := randomFloats(rng, n)
	for i := range values {
		switch rng.IntN(8) {
		case 0:
			values[i] *= 1e4
		case 1:
			values[i] *= 1e-22
		case 2:
			values[i] = minusZero
		case 3:
			values[i] = 0
		}
	}
	return values
}
