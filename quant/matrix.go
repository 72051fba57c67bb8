package quant

import "fmt"

// MatrixStep is what a token does to some columns of a matrix, and what it reads from them; see AdvanceMatrix.
type MatrixStep struct {
	Key    []float32 // [keys]
	Query  []float32 // [keys]; not used without Out
	Value  []float32 // [columns]
	Out    []float32 // [columns] receives what the query reads; nil: nothing
	Decay  float32
	Weight float32 // of the value
	Skip   float32 // how much of the value is added to the output; not used if HasSkip is unset

	Delta   bool // the value is what the matrix gives for the key, less what it gives already
	HasSkip bool
}

// AdvanceMatrix takes columns of a matrix over a token. With S for the matrix, k for the key, q for the query, v for the
// value, a for the decay, b for the weight and s for the skip, it computes
//
//	u = b·(v - a·Sᵀk)                if Delta, else b·v
//	o = (a·Sᵀq + (k·q)·u) + s·v      without the last addition unless HasSkip
//	S = a·S + k·uᵀ
//
// Sums over the keys are WeightedSum's, k·q is Dot, and the last line fuses as WeightedSum does. All other products and
// sums round one by one. to may be from. Rows of the matrix are stride elements apart.
func AdvanceMatrix(to, from []float32 /* [keys, stride] */, stride int, s MatrixStep) {
	if len(s.Key) == 0 || len(s.Value) == 0 {
		return
	}
	size := (len(s.Key)-1)*stride + len(s.Value)
	if stride < len(s.Value) || len(to) < size || len(from) < size || s.Out != nil && (len(s.Query) < len(s.Key) || len(s.Out) < len(s.Value)) {
		panic(fmt.Sprintf("quant: AdvanceMatrix of %d keys and %d columns exceeds its slices", len(s.Key), len(s.Value)))
	}
	var kq float32
	if s.Out != nil {
		kq = active.dot(s.Key, s.Query[:len(s.Key)])
	}
	active.advance(to, from, stride, s, kq)
}

// matrixColumns is the number of columns that the portable path takes over a token at a time.
const matrixColumns = 64

func (k portable) advance(to, from []float32 /* [keys, stride] */, stride int, s MatrixStep, kq float32) {
	for c := 0; c < len(s.Value); c += matrixColumns {
		k.advanceColumns(to, from, stride, &s, kq, c, min(c+matrixColumns, len(s.Value)))
	}
}

// advanceColumns is advance for columns lo to hi-1, at most matrixColumns.
func (k portable) advanceColumns(to, from []float32 /* [keys, stride] */, stride int, s *MatrixStep, kq float32, lo, hi int) {
	var sums, read [matrixColumns]float32
	u, keys, v := sums[:hi-lo], len(s.Key), s.Value[lo:hi]
	if s.Delta {
		k.weightedSum(u, stride, s.Key, keys, from[lo:], stride, keys, hi-lo, 1)
		for i, x := range v {
			u[i] = s.Weight * (x - float32(s.Decay*u[i]))
		}
	} else {
		for i, x := range v {
			u[i] = s.Weight * x
		}
	}
	if s.Out != nil {
		k.weightedSum(read[:], stride, s.Query, keys, from[lo:], stride, keys, hi-lo, 1)
		out := s.Out[lo:hi]
		for i, x := range u {
			out[i] = float32(s.Decay*read[i]) + float32(kq*x)
			if s.HasSkip {
				out[i] += float32(v[i] * s.Skip)
			}
		}
	}
	for i, weight := range s.Key {
		dst, src := to[i*stride+lo:][:hi-lo], from[i*stride+lo:][:hi-lo]
		for c, x := range src {
			dst[c] = k.ar.mulAdd(weight, u[c], float32(x*s.Decay))
		}
	}
}
