package exec

import (
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/recurrent"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/kv"
)

// Traffic is the minimum cost of one token in any engine: bytes of weights read from memory, and
// multiply-adds.
type Traffic struct {
	// WeightBytes is the size, as stored in the model file, of the weights that decoding one
	// token reads: all except the unused rows of an untied embedding and the experts that are not
	// chosen.
	WeightBytes int64
	// LayerMulAdds is the number of multiply-adds of all layers for one token. HeadMulAdds is the
	// number of the output head, for a token whose logits are wanted.
	LayerMulAdds, HeadMulAdds int64
	// PrunedMulAdds is the part of LayerMulAdds that the last layer spends after its keys and
	// values. Like the head, it applies only to tokens whose logits are wanted.
	PrunedMulAdds int64
}

// Traffic returns the cost of one token of the layers that the CPU computes.
func (m *Model) Traffic() Traffic {
	var t Traffic
	w := m.weights
	t.add(&w.Head, 1)
	t.HeadMulAdds, t.LayerMulAdds = t.LayerMulAdds, 0
	t.addGains(&w.Norm, &w.TableNorm)
	if !w.Tied {
		t.WeightBytes += int64(w.Embed.RowBytes())
	}
	if w.Table.Present() {
		t.WeightBytes += int64(w.Table.RowBytes())
	}
	for l := range w.Layers {
		t.addLayer(&w.Layers[l], m.Spec)
	}
	t.PrunedMulAdds = prunedMulAdds(w, m.Spec)
	return t
}

// prunedMulAdds returns Traffic.PrunedMulAdds.
func prunedMulAdds(w *weights.Weights, s *arch.Spec) int64 {
	if len(w.Layers) < len(s.Layers) {
		return 0 // an accelerator computes the last layer
	}
	var end Traffic
	end.addAfterKV(&w.Layers[len(w.Layers)-1], s)
	return end.LayerMulAdds
}

func (t *Traffic) addLayer(w *weights.LayerWeights, s *arch.Spec) {
	t.addGains(&w.AttnNorm, &w.PostAttnNorm, &w.FFNNorm, &w.PostFFNNorm, &w.QNorm, &w.KNorm, &w.PerLayer.PostNorm,
		&w.AltUp.RouterNorm, &w.AltUp.LaurelNorm, &w.Beside.Router, &w.Beside.Experts, &w.Beside.DenseOutput, &w.Beside.ExpertsOutput)
	t.addVectors(w.Sinks, w.RouterBias, w.Scale)
	t.WeightBytes += 4 * int64(len(w.AltUp.Router)+len(w.AltUp.Predict)+len(w.AltUp.Correct)+len(w.AltUp.Scale))
	for i := range w.AltUp.In {
		t.add(&w.AltUp.In[i], 1)
	}
	t.add(&w.AltUp.Left, 1)
	w.EachLatent(func(_ string, m *weights.Linear) { t.add(m, 1) })
	t.addGains(&w.Latent.QNorm, &w.Latent.KVNorm)
	for _, m := range []*weights.Linear{&w.Q, &w.QGate, &w.K, &w.V, &w.ConvIn} {
		t.add(m, 1)
	}
	r := &w.Recurrent
	for _, m := range []*weights.Linear{&r.In, &r.Gate, &r.Step, &r.Value} {
		t.add(m, 1)
	}
	t.addVectors(r.Vectors.Kernel, r.Vectors.Bias, r.Vectors.Decay, r.Vectors.StepBias, r.Vectors.Skip, r.Vectors.Norm)
	t.LayerMulAdds += int64(len(r.Vectors.Kernel))
	t.WeightBytes += 4 * int64(len(w.Conv)+len(w.ConvBias))
	t.LayerMulAdds += int64(len(w.Conv))
	t.addAfterKV(w, s)
}

// addAfterKV adds the matmuls of a layer after its keys and values.
func (t *Traffic) addAfterKV(w *weights.LayerWeights, s *arch.Spec) {
	for _, m := range []*weights.Linear{&w.O, &w.ConvOut, &w.Recurrent.Out, &w.Router, &w.SharedGate} {
		t.add(m, 1)
	}
	t.addMLP(&w.MLP, 1)
	t.addMLP(&w.Shared, 1)
	t.add(&w.AltUp.Right, 1)
	for i := range w.AltUp.Out {
		t.add(&w.AltUp.Out[i], 1)
	}
	for _, m := range []*weights.Linear{&w.PerLayer.Model, &w.PerLayer.Gate, &w.PerLayer.Out} {
		t.add(m, 1)
	}
	if len(w.Experts) > 0 { // all have the same size
		t.addMLP(&w.Experts[0], int64(s.ExpertsUsed))
	}
}

func (t *Traffic) addMLP(m *weights.MLP, times int64) {
	t.add(&m.Gate, times)
	t.add(&m.Up, times)
	t.add(&m.Down, times)
}

// add adds the cost of multiplying a matrix the given number of times.
func (t *Traffic) add(m *weights.Linear, times int64) {
	if !m.Present() {
		return
	}
	t.WeightBytes += times * int64(m.Rows*m.RowBytes()+4*(len(m.Bias)+len(m.Scale)))
	t.LayerMulAdds += times * int64(m.Rows) * int64(m.Cols)
}

func (t *Traffic) addGains(gains ...*weights.Gain) {
	for _, g := range gains {
		t.WeightBytes += 4 * int64(len(g.Weight)+len(g.Bias))
	}
}

func (t *Traffic) addVectors(vectors ...[]float32) {
	for _, v := range vectors {
		t.WeightBytes += 4 * int64(len(v))
	}
}

// StateBytesMoved returns the bytes of recurrent state that a token reads and writes, whatever its position.
func (m *Model) StateBytesMoved() int64 { return 2 * recurrent.BranchBytes(m.Spec) }

// KVBytesRead returns the bytes of keys and values that attention reads for the token at pos.
func (m *Model) KVBytesRead(pos int) int64 {
	shape := m.Spec.KVShape(m.cache.Shape().Format)
	var n int64
	for i, l := range m.Spec.Layers {
		seen := pos + 1
		if l.Window > 0 {
			seen = min(seen, l.Window)
		}
		n += int64(seen) * int64(l.KVHeads*shape.HeadBytes(m.Spec.Stored(i))/kv.BlockTokens)
	}
	return n
}
