package tiled

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/quant"
)

// randomRows returns rows of a type with random codes and finite scales.
func randomRows(t quant.Type, rows, cols int, seed uint64) []byte {
	random := rand.New(rand.NewPCG(seed, uint64(t)))
	n, _ := t.RowBytes(cols)
	data := make([]byte, rows*n)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	f := formats[t]
	for b := 0; b < len(data); b += t.BlockBytes() {
		var r rowBlock
		f.split(&r, data[b:][:t.BlockBytes()])
		for i := range r.half {
			r.half[i] = quant.F32ToF16(float32(random.NormFloat64()) / 64)
		}
		r.exponent = byte(110 + random.IntN(10))
		r.zero = byte(random.IntN(17))
		f.join(&r, data[b:][:t.BlockBytes()])
	}
	return data
}

func randomVector(n int, seed uint64) []float32 {
	random := rand.New(rand.NewPCG(seed, 99))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(random.NormFloat64())
	}
	return x
}

func activationsOf(x []float32, cols, tokens int) *Activations {
	a := &Activations{}
	a.Use(make([]float32, FloatsNeeded(cols, tokens)), cols, tokens)
	for t := range tokens {
		a.Set(t, x[t*cols:][:cols])
	}
	return a
}

func packed(t testing.TB, typ quant.Type, src []byte, rows, cols int) *Matrix {
	n, err := Bytes(typ, rows, cols)
	require.NoError(t, err)
	m := &Matrix{Type: typ, Rows: rows, Cols: cols, Data: make([]byte, n)}
	Pack(m.Data, typ, src, rows, cols)
	return m
}

// TestPackIsLossless checks that UnpackRow restores every bit of a packed row and does not
// allocate.
func TestPackIsLossless(t *testing.T) {
	for typ := range formats {
		t.Run(typ.String(), func(t *testing.T) {
			const rows, cols = 37, 512
			n, _ := typ.RowBytes(cols)
			src := make([]byte, rows*n)
			random := rand.New(rand.NewPCG(1, 2))
			for i := range src {
				src[i] = byte(random.Uint32())
			}
			m := packed(t, typ, src, rows, cols)
			for row := range rows {
				got := make([]byte, n)
				UnpackRow(got, typ, m.Data, cols, row)
				require.Equal(t, src[row*n:(row+1)*n], got, "row %d", row)
			}
			got := make([]byte, n)
			require.Zero(t, testutil.AllocsPerRun(5, 0, func() { UnpackRow(got, typ, m.Data, cols, rows-1) }), "decoding reads embedding rows with UnpackRow")
		})
	}
}

// TestMultiplyMatchesFloats checks that Multiply is close to the float64 product of the
// dequantized weights and activations.
func TestMultiplyMatchesFloats(t *testing.T) {
	for typ := range formats {
		t.Run(typ.String(), func(t *testing.T) {
			const rows, cols, tokens = 21, 768, 19
			src := randomRows(typ, rows, cols, 3)
			m := packed(t, typ, src, rows, cols)
			x := randomVector(tokens*cols, 4)
			a := activationsOf(x, cols, tokens)
			y := make([]float32, tokens*rows)
			Multiply(y, m, 0, m.Tiles(), a, NewScratch(tokens))
			n, _ := typ.RowBytes(cols)
			w := make([]float32, cols)
			for row := range rows {
				quant.DequantRow(typ, w, src[row*n:(row+1)*n])
				for tok := range tokens {
					var want, size float64
					for k := range cols {
						var q [GroupElems]int8
						d := quantizeGroup(&q, x[tok*cols+k/GroupElems*GroupElems:][:GroupElems])
						v := float64(w[k]) * float64(d) * float64(q[k%GroupElems])
						want += v
						size += math.Abs(v)
					}
					require.InDelta(t, want, y[tok*rows+row], size*1e-5, "row %d token %d", row, tok)
				}
			}
		})
	}
}

// TestMultiplyDoesNotDependOnTheBatch checks that a token's results are the same alone and
// in a batch.
func TestMultiplyDoesNotDependOnTheBatch(t *testing.T) {
	for typ := range formats {
		t.Run(typ.String(), func(t *testing.T) {
			const rows, cols, most = 16, 1280, 37
			m := packed(t, typ, randomRows(typ, rows, cols, 5), rows, cols)
			x := randomVector(most*cols, 6)
			all, one := make([]float32, most*rows), make([]float32, most*rows)
			s := NewScratch(most)
			for tok := range most {
				Multiply(one[tok*rows:][:rows], m, 0, 1, activationsOf(x[tok*cols:], cols, 1), s)
			}
			for _, tokens := range []int{2, 3, 7, 9, 16, most} {
				Multiply(all[:tokens*rows], m, 0, 1, activationsOf(x, cols, tokens), s)
				require.Equal(t, one[:tokens*rows], all[:tokens*rows], "%d tokens", tokens)
			}
		})
	}
}

// TestMultiplyPartsOfTiles checks that multiplying a few tiles at a time gives the same
// results as multiplying the whole matrix.
func TestMultiplyPartsOfTiles(t *testing.T) {
	for typ := range formats {
		t.Run(typ.String(), func(t *testing.T) {
			const rows, cols, tokens = 5*TileRows - 3, 512, 5
			m := packed(t, typ, randomRows(typ, rows, cols, 5), rows, cols)
			acts := activationsOf(randomVector(tokens*cols, 6), cols, tokens)
			s := NewScratch(tokens)
			want, got := make([]float32, tokens*rows), make([]float32, tokens*rows)
			Multiply(want, m, 0, m.Tiles(), acts, s)
			for first := 0; first < m.Tiles(); first += 2 {
				last := min(first+2, m.Tiles())
				part := *m
				part.First, part.Data = first, m.Data[first*m.tileBytes():last*m.tileBytes()]
				Multiply(got, &part, first, last, acts, s)
			}
			require.Equal(t, want, got)
		})
	}
}

// TestMultiplyIntoLongerRows checks that Multiply with a Stride writes only its part of the
// result rows.
func TestMultiplyIntoLongerRows(t *testing.T) {
	const cols, before, after = 512, 3, 20
	for _, rows := range []int{2 * TileRows, 3*TileRows - 5} {
		for _, tokens := range []int{1, 5, 40} {
			m := packed(t, quant.Q8_0, randomRows(quant.Q8_0, rows, cols, 5), rows, cols)
			acts := activationsOf(randomVector(tokens*cols, 6), cols, tokens)
			s := NewScratch(tokens)
			results := make([]float32, tokens*rows)
			Multiply(results, m, 0, m.Tiles(), acts, s)

			m.Stride = before + rows + after
			got := make([]float32, tokens*m.Stride)
			want := make([]float32, len(got))
			for i := range got {
				got[i], want[i] = float32(i), float32(i)
			}
			for tok := range tokens {
				copy(want[tok*m.Stride+before:], results[tok*rows:][:rows])
			}
			Multiply(got[before:before+(tokens-1)*m.Stride+rows], m, 0, m.Tiles(), acts, s)
			require.Equal(t, want, got, "%d rows, %d tokens", rows, tokens)
		}
	}
}
