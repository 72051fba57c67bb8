package recurrent

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/quant"
)

// randomLayer returns the inputs of some tokens of a layer.
func randomLayer(r *arch.Recurrence, tokens int) (in Inputs, state []float32) {
	rng := rand.New(rand.NewPCG(1, 2))
	floats := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = rng.Float32() - 0.5
		}
		return x
	}
	in = Inputs{
		Channels: Rows{floats(tokens * r.Channels()), r.Channels()},
		Decay:    Rows{floats(tokens * r.Heads), r.Heads}, Weight: Rows{floats(tokens * r.Heads), r.Heads},
		Out: Rows{make([]float32, tokens*r.Inner()), r.Inner()},
	}
	if !r.Delta {
		in.Skip = floats(r.Heads)
	}
	return in, floats(r.Heads * r.Key * r.Value)
}

// TestAdvanceFollowsItsDefinition compares outputs and matrices with plain loops in float64, and those of one call with
// those of a call for each token.
func TestAdvanceFollowsItsDefinition(t *testing.T) {
	for _, r := range []arch.Recurrence{
		{Heads: 4, Groups: 2, Key: 16, Value: 80, Delta: true},
		{Heads: 4, Groups: 2, Key: 16, Value: 80, Delta: true, InTurn: true},
		{Heads: 4, Groups: 1, Key: 24, Value: 32},
	} {
		const tokens = 5
		in, now := randomLayer(&r, tokens)
		next, steps := make([]float32, len(now)), append([]float32(nil), now...)
		for part := range Parts(&r) {
			Advance(&r, next, now, part, &in, tokens)
		}
		got := append([]float32(nil), in.Out.Data...)
		for i := range tokens {
			one := in
			one.Channels.Data, one.Decay.Data, one.Weight.Data, one.Out.Data = in.Channels.Row(i), in.Decay.Row(i), in.Weight.Row(i), in.Out.Row(i)
			for part := range Parts(&r) {
				Advance(&r, steps, steps, part, &one, 1)
			}
		}
		require.Equal(t, got, in.Out.Data)
		require.Equal(t, next, steps)
		for head := range r.Heads {
			for column := range r.Value {
				plainColumn(t, &r, &in, now, next, head, column, tokens)
			}
		}
	}
}

// plainColumn computes one column of the matrix of a head.
func plainColumn(t *testing.T, r *arch.Recurrence, in *Inputs, now, next []float32, head, column, tokens int) {
	t.Helper()
	lo := column / blockValues * blockValues
	width := min(blockValues, r.Value-lo)
	at := func(key int) int { return head*r.Key*r.Value + r.Key*lo + key*width + column - lo }
	s := make([]float64, r.Key)
	for i := range s {
		s[i] = float64(now[at(i)])
	}
	for tok := range tokens {
		row := in.Channels.Row(tok)
		k, q, v := r.KeyOf(row, head), r.QueryOf(row, head), float64(r.ValueOf(row, head)[column])
		decay, weight := float64(in.Decay.Row(tok)[head]), float64(in.Weight.Row(tok)[head])
		u := v
		for i := range s {
			s[i] *= decay
			if r.Delta {
				u -= s[i] * float64(k[i])
			}
		}
		var out float64
		for i := range s {
			s[i] += float64(k[i]) * weight * u
			out += s[i] * float64(q[i])
		}
		if in.Skip != nil {
			out += float64(in.Skip[head]) * v
		}
		require.InDelta(t, out, in.Out.Row(tok)[head*r.Value+column], 1e-5)
	}
	for i := range s {
		require.InDelta(t, s[i], next[at(i)], 1e-5)
	}
}

// byRows is a token's step by operations on rows, one after the other, which defines the bits.
func byRows(to, from []float32 /* [keys, columns] */, s *quant.MatrixStep) {
	keys, n := len(s.Key), len(s.Value)
	u, read := make([]float32, n), make([]float32, n)
	quant.WeightedSum(u, n, s.Key, keys, from, n, keys, n, 1)
	for i, x := range s.Value {
		if s.Delta {
			x -= float32(s.Decay * u[i])
		}
		u[i] = s.Weight * x
	}
	quant.WeightedSum(read, n, s.Query, keys, from, n, keys, n, 1)
	kq := quant.Dot(s.Key, s.Query)
	for i, x := range u {
		s.Out[i] = float32(s.Decay*read[i]) + float32(kq*x)
	}
	if s.HasSkip {
		quant.AddScaled(s.Out, s.Value, s.Skip)
	}
	copy(to, from)
	quant.Scale(to, s.Decay)
	quant.WeightedSum(to, n, s.Key, 1, u, n, 1, n, keys)
}

// TestAdvanceHasTheBitsOfRowOperations compares outputs and matrices with those of operations on rows, which the kernel
// fuses.
func TestAdvanceHasTheBitsOfRowOperations(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 40 {
		r := arch.Recurrence{Heads: 4, Groups: 2, Key: 1 + rng.IntN(40), Value: 1 + rng.IntN(150), Delta: rng.IntN(2) == 0}
		const tokens = 3
		in, now := randomLayer(&r, tokens)
		next, want := make([]float32, len(now)), append([]float32(nil), now...)
		wantOut := make([]float32, len(in.Out.Data))
		for part := range Parts(&r) {
			Advance(&r, next, now, part, &in, tokens)
			lo := part % blocks(&r) * blockValues
			b := block{&r, part / blocks(&r), lo, min(lo+blockValues, r.Value)}
			for i := range tokens {
				s, at := b.step(&in, i), b.head*r.Key*r.Value+r.Key*b.lo
				s.Out = wantOut[i*r.Inner()+b.head*r.Value+b.lo:][:len(s.Value)]
				byRows(want[at:][:r.Key*len(s.Value)], want[at:][:r.Key*len(s.Value)], &s)
			}
		}
		require.Equal(t, wantOut, in.Out.Data, "%+v", r)
		require.Equal(t, want, next, "%+v", r)
	}
}

// BenchmarkAdvance advances the matrices of one layer of the size of Qwen3.5-4B.
func BenchmarkAdvance(b *testing.B) {
	for _, tokens := range []int{1, 32} {
		b.Run(strconv.Itoa(tokens), func(b *testing.B) {
			r := arch.Recurrence{Heads: 32, Groups: 16, Key: 128, Value: 128, Delta: true}
			in, now := randomLayer(&r, tokens)
			for i := range in.Decay.Data {
				in.Decay.Data[i] = 0.999 // numbers of usual size remain
				in.Weight.Data[i] += 0.5
			}
			for i := range tokens {
				NormKeys(&r, in.Channels.Row(i)[:r.Channels()])
			}
			b.ReportAllocs()
			for b.Loop() {
				for part := range Parts(&r) {
					Advance(&r, now, now, part, &in, tokens)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*tokens), "ns/token")
		})
	}
}
