package exec

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/quant"
)

// This is the forward pass of a decoder in plain Go: one token at a time, in float32, without
// tiles, threads, queues or quantized activations. Read it before forward.go, which computes the
// same for many tokens at once. It is the oracle of the fast pass for every family. The
// arithmetic of single steps follows it.

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

// The arithmetic of the plain pass. Sums of many terms are float64, so that their order does not
// matter here.

// multiply returns x·wᵀ + bias.
func multiply(w *weights.Linear, x []float32 /* [Cols] */) []float32 {
	out := make([]float32, w.Rows)
	for row := range out {
		out[row] = dot(rowOfMatrix(&w.Matrix, row), x)
		if w.Bias != nil {
			out[row] += w.Bias[row]
		}
	}
	return out
}

func dot(a, b []float32) float32 {
	var sum float64
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return float32(sum)
}

// normalize is RMSNorm, or LayerNorm with a bias.
func normalize(n *arch.NormSpec, x []float32, g *weights.Gain) []float32 {
	var mean, squares float64
	if n.Layer {
		for _, v := range x {
			mean += float64(v) / float64(len(x))
		}
	}
	for _, v := range x {
		squares += (float64(v) - mean) * (float64(v) - mean) / float64(len(x))
	}
	scale := 1 / math.Sqrt(squares+float64(n.Eps))
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32((float64(v)-mean)*scale) * (g.Weight[i] + n.Offset)
		if g.Bias != nil {
			out[i] += g.Bias[i]
		}
	}
	return out
}

func softmax(x []float32) []float32 {
	top := float64(slices.Max(x))
	var total float64
	out := make([]float32, len(x))
	for i, v := range x {
		e := math.Exp(float64(v) - top)
		out[i] = float32(e)
		total += e
	}
	return times(out, float32(1/total))
}

// softCap maps values smoothly to the range from -limit to limit; 0 means no limit.
func softCap(x []float32, limit float32) []float32 {
	if limit == 0 {
		return x
	}
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = limit * float32(math.Tanh(float64(v/limit)))
	}
	return out
}

func activate(a arch.Activation, x float32) float32 {
	v := float64(x)
	switch a {
	case arch.GELUTanh:
		return float32(v / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v))))
	case arch.GELUErf:
		return float32(v / 2 * (1 + math.Erf(v/math.Sqrt2)))
	}
	return x * sigmoid(x)
}

func sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }

// turn rotates a point by an angle.
func turn(a, b, cos, sin float32) (float32, float32) { return a*cos - b*sin, b*cos + a*sin }

// clamp cuts values off at -limit and limit; 0 means no limit.
func clamp(x []float32, limit float32) []float32 {
	out := slices.Clone(x)
	for i, v := range out {
		if limit > 0 {
			out[i] = min(max(v, -limit), limit)
		}
	}
	return out
}

func times(x []float32, by float32) []float32 {
	out := make([]float32, len(x))
	addScaled(out, x, by)
	return out
}

func sum(a, b []float32) []float32 {
	out := slices.Clone(a)
	addScaled(out, b, 1)
	return out
}

func addScaled(dst, x []float32, by float32) {
	for i, v := range x {
		dst[i] += by * v
	}
}

// largest returns the indices of the n largest values, the lower index first among equals.
func largest(x []float32, n int) []int {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case x[a] > x[b]:
			return -1
		case x[a] < x[b]:
			return 1
		}
		return 0
	})
	return order[:n]
}

// deviation returns the standard deviation of values.
func deviation(x []float32) float64 {
	var mean, squares float64
	for _, v := range x {
		mean += float64(v) / float64(len(x))
	}
	for _, v := range x {
		squares += (float64(v) - mean) * (float64(v) - mean) / float64(len(x))
	}
	return math.Sqrt(squares)
}

// TestPlainPassEqualsTheFastOne compares both for every family and the bundled model.
func TestPlainPassEqualsTheFastOne(t *testing.T) {
	dirs := append(modeltest.FixtureDirs(t), hubmodel.Dir(testutil.Root(t)))
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			m := openFixture(t, dir, "config.json", plainOptions)
			requireEqualPasses(t, m, min(40, m.Spec.Context), false)
		})
	}
}

// TestPlainPassOfFieldsWithoutFixture sets what no fixture has: clipped projections and the
// bias of a convolution. It also passes the length at which frequencies change.
func TestPlainPassOfFieldsWithoutFixture(t *testing.T) {
	for _, c := range []struct {
		fixture string
		change  func(m *Model) (tokens int, long bool)
	}{
		{"olmoe", func(m *Model) (int, bool) { m.Spec.ClipQKV = 0.02; return 40, false }},
		{"lfm2", func(m *Model) (int, bool) {
			for l := range m.weights.Layers {
				if w := &m.weights.Layers[l]; w.Conv != nil {
					w.ConvBias = make([]float32, m.Spec.Dim)
					for i := range w.ConvBias {
						w.ConvBias[i] = float32(i%7-3) / 10
					}
				}
			}
			return 40, false
		}},
		{"phi3_longrope", func(m *Model) (int, bool) { return m.Spec.Ropes[0].Switch + 2, true }},
	} {
		t.Run(c.fixture, func(t *testing.T) {
			m := openFixture(t, testutil.Shared(t, "fixtures", c.fixture), "config.json", plainOptions)
			tokens, long := c.change(m)
			requireEqualPasses(t, m, tokens, long)
		})
	}
}

// plainOptions load weights as the plain pass reads them.
var plainOptions = Options{Exact: true, KV: kv.F32}

// requireEqualPasses compares the logits of both passes. The tolerance covers the different
// order of float32 additions.
func requireEqualPasses(t *testing.T, m *Model, tokens int, long bool) {
	t.Helper()
	var ids []int32
	for i := range tokens {
		ids = append(ids, int32((i*i*7+i*3+1)%m.Spec.Vocab))
	}
	fast, plain := allLogits(t, m, ids), newPlainPass(m)
	plain.long = long
	for i, id := range ids {
		want := plain.token(id)
		testutil.RequireNear(t, want, fast[i], 2e-3*deviation(want), "token %d", i)
	}
}
