package exec

import (
	"math"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/quant"
)

// This is the forward pass of a decoder in plain Go: one token at a time, in float32, without
// tiles, threads, queues or quantized activations. Read it before forward.go, which computes the
// same for many tokens at once. It is the oracle of the fast pass for every family. The
// arithmetic of single steps is in reference_math_test.go.

// plainPass is a model and the state of one sequence.
type plainPass struct {
	spec *arch.Spec
	w    *weights.Weights
	keys [][][]float32 // [layer][position] -> [KVHeads*HeadDim], rotated
	vals [][][]float32 // [layer][position] -> [KVHeads*HeadDim]
	conv [][][]float32 // [layer][position] -> [Dim], the products B·x of a short convolution
	long bool          // rotate by the frequencies of long sequences
}

// newPlainPass returns an empty sequence of a model that was loaded exactly.
func newPlainPass(m *Model) *plainPass {
	n := len(m.Spec.Layers)
	return &plainPass{spec: m.Spec, w: m.weights, keys: make([][][]float32, n), vals: make([][][]float32, n), conv: make([][][]float32, n)}
}

// token passes one token through the model and returns its logits.
func (p *plainPass) token(id int32) []float32 /* [Vocab] */ {
	s := p.spec
	x := times(rowOfMatrix(&p.w.Embed.Matrix, int(id)), s.EmbedScale)
	for l := range s.Layers {
		x = p.layer(l, x)
	}
	logits := times(multiply(&p.w.Head, normalize(&s.Norm, x, &p.w.Norm)), s.LogitScale)
	return softCap(logits, s.FinalSoftcap)
}

// layer passes the residual stream through one layer.
func (p *plainPass) layer(l int, x []float32 /* [Dim] */) []float32 {
	s, w := p.spec, &p.w.Layers[l]

	// Attention, or a convolution, combines the token with earlier tokens.
	in := x
	if s.PreNorm {
		in = normalize(&s.Norm, x, &w.AttnNorm)
	}
	var mixed []float32
	if s.Layers[l].Mixer == arch.ShortConv {
		mixed = p.shortConv(l, in)
	} else {
		mixed = p.attention(l, in)
	}
	if s.PostNorm {
		mixed = normalize(&s.Norm, mixed, &w.PostAttnNorm)
	}

	// The MLP reads the sum of x and attention's output. In parallel layers it reads x.
	after := x
	if s.Parallel == arch.Serial {
		after = sum(x, times(mixed, s.ResidualScale))
	}
	switch {
	case s.PreNorm && s.Parallel == arch.ParallelSharedNorm: // both read the same normalized input
	case s.PreNorm:
		in = normalize(&s.Norm, after, &w.FFNNorm)
	default:
		in = after
	}
	var ffn []float32
	if s.Layers[l].Experts {
		ffn = p.experts(w, in)
	} else {
		ffn = p.mlp(&w.MLP, in)
	}
	if s.PostNorm {
		ffn = normalize(&s.Norm, ffn, &w.PostFFNNorm)
	}
	if s.Parallel != arch.Serial {
		after = sum(after, times(mixed, s.ResidualScale))
	}
	return sum(after, times(ffn, s.ResidualScale))
}

// attention computes queries, keys and values of the token and stores its keys and values. For
// each query head it adds up the values of all tokens in the window, weighted by the softmax of
// the products of their keys with the query.
func (p *plainPass) attention(l int, in []float32 /* [Dim] */) []float32 {
	s, w, layer := p.spec, &p.w.Layers[l], &p.spec.Layers[l]
	q, k, v := multiply(&w.Q, in), multiply(&w.K, in), multiply(&w.V, in)
	q, k = p.normalizeHeads(q, &w.QNorm), p.normalizeHeads(k, &w.KNorm)
	q, k, v = clamp(q, s.ClipQKV), clamp(k, s.ClipQKV), clamp(v, s.ClipQKV)
	pos := len(p.keys[l])
	p.rotate(q, layer.Rope, pos)
	p.rotate(k, layer.Rope, pos)
	p.keys[l], p.vals[l] = append(p.keys[l], k), append(p.vals[l], v)

	first := 0
	if layer.Window > 0 {
		first = max(0, pos-layer.Window+1)
	}
	d, group := layer.HeadDim, s.Heads/layer.KVHeads
	out := make([]float32, s.Heads*d)
	for head := range s.Heads {
		at := head / group * d // of the key head that the query head shares
		var scores []float32
		for t := first; t <= pos; t++ {
			scores = append(scores, s.AttnScale*dot(q[head*d:(head+1)*d], p.keys[l][t][at:at+d]))
		}
		for i, weight := range softmax(softCap(scores, s.AttnSoftcap)) {
			addScaled(out[head*d:(head+1)*d], p.vals[l][first+i][at:at+d], weight)
		}
	}
	return multiply(&w.O, out)
}

// normalizeHeads normalizes queries or keys: each head by itself, all together, or not at all.
func (p *plainPass) normalizeHeads(x []float32, g *weights.Gain) []float32 {
	switch p.spec.QKNorm {
	case arch.QKNormAllHeads:
		return normalize(&p.spec.Norm, x, g)
	case arch.QKNormHead:
		var out []float32
		for d := p.spec.HeadDim; len(x) > 0; x = x[d:] {
			out = append(out, normalize(&p.spec.Norm, x[:d], g)...)
		}
		return out
	}
	return x
}

// rotate turns each head of queries or keys by the angles of a position.
func (p *plainPass) rotate(x []float32, table, pos int) {
	if table < 0 {
		return
	}
	t := &p.spec.Ropes[table]
	freq := t.Freq
	if p.long && t.LongFreq != nil {
		freq = t.LongFreq
	}
	d, half := p.spec.HeadDim, t.Dim/2
	for head := 0; head < len(x); head += d {
		for i := range half {
			a, b := head+i, head+half+i
			if p.spec.Interleave {
				a, b = head+2*i, head+2*i+1
			}
			sin, cos := math.Sincos(float64(float32(pos) * freq[i]))
			x[a], x[b] = turn(x[a], x[b], float32(cos)*t.Gain, float32(sin)*t.Gain)
		}
	}
}

// shortConv convolves B·x over the last tokens, channel by channel, and gates the result with C.
func (p *plainPass) shortConv(l int, in []float32 /* [Dim] */) []float32 {
	w, dim, taps := &p.w.Layers[l], p.spec.Dim, p.spec.ConvTaps
	bcx := multiply(&w.ConvIn, in)
	product := make([]float32, dim)
	for c := range dim {
		product[c] = bcx[c] * bcx[2*dim+c]
	}
	p.conv[l] = append(p.conv[l], product)
	now := len(p.conv[l]) - 1
	out := make([]float32, dim)
	for c := range dim {
		for i := range taps {
			if t := now - (taps - 1) + i; t >= 0 {
				out[c] += w.Conv[c*taps+i] * p.conv[l][t][c]
			}
		}
		if w.ConvBias != nil {
			out[c] += w.ConvBias[c]
		}
		out[c] *= bcx[dim+c]
	}
	return multiply(&w.ConvOut, out)
}

// mlp is down(act(gate)·up), or down(act(up)) without a gate.
func (p *plainPass) mlp(w *weights.MLP, in []float32 /* [Dim] */) []float32 {
	inner := multiply(&w.Up, in)
	if p.spec.Gated {
		gate := multiply(&w.Gate, in)
		for i := range inner {
			inner[i] *= activate(p.spec.Act, gate[i])
		}
	} else {
		for i := range inner {
			inner[i] = activate(p.spec.Act, inner[i])
		}
	}
	return multiply(&w.Down, inner)
}

// experts adds up the MLPs of the experts with the highest router probabilities, and the shared
// expert.
func (p *plainPass) experts(w *weights.LayerWeights, in []float32 /* [Dim] */) []float32 {
	s := p.spec
	probs := softmax(multiply(&w.Router, in))
	chosen := largest(probs, s.ExpertsUsed)
	total := float32(1)
	if s.NormTopK {
		total = 0
		for _, e := range chosen {
			total += probs[e]
		}
	}
	out := make([]float32, s.Dim)
	for _, e := range chosen {
		addScaled(out, p.mlp(&w.Experts[e], in), probs[e]/total)
	}
	if w.Shared.Up.Present() {
		weight := float32(1)
		if w.SharedGate.Present() {
			weight = sigmoid(multiply(&w.SharedGate, in)[0])
		}
		addScaled(out, p.mlp(&w.Shared, in), weight)
	}
	return out
}

// rowOfMatrix returns one row of a matrix whose data has the layout of the model file.
func rowOfMatrix(m *weights.Matrix, i int) []float32 {
	out := make([]float32, m.Cols)
	n := m.RowBytes()
	quant.DequantRow(m.Type, out, m.Data[i*n:(i+1)*n])
	return out
}
