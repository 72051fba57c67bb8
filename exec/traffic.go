package exec

// Traffic is what the weights ask of a machine: bytes that have to come from
// memory and products that have to be computed, whatever the engine.
type Traffic struct {
	// WeightBytes is how many bytes of weights decoding one token reads, as the
	// model file stores them: all of them, but one row of an embedding that is
	// not the output head too, and only those experts that see the token.
	WeightBytes int64
	// LayerMulAdds is how many products of weights all layers add up for one
	// token, HeadMulAdds those of the output head where its logits are asked
	// for.
	LayerMulAdds, HeadMulAdds int64
	// EndMulAdds is what of LayerMulAdds the last layer adds up behind its keys and
	// values: as with the head, only where logits are asked for.
	EndMulAdds int64
}

// Traffic returns what one token costs, of what is computed here.
func (m *Model) Traffic() Traffic {
	var t Traffic
	w := m.weights
	t.add(&w.head, 1)
	t.HeadMulAdds, t.LayerMulAdds = t.LayerMulAdds, 0
	t.addGains(&w.norm)
	if !w.tied {
		t.WeightBytes += int64(w.embed.rowBytes())
	}
	for l := range w.layers {
		t.addLayer(&w.layers[l], m.Spec)
	}
	t.EndMulAdds = w.endMulAdds(m.Spec)
	return t
}

// endMulAdds returns Traffic.EndMulAdds.
func (w *weights) endMulAdds(s *Spec) int64 {
	if len(w.layers) < len(s.Layers) {
		return 0 // the last layer is elsewhere
	}
	var end Traffic
	end.addBehindKeys(&w.layers[len(w.layers)-1], s)
	return end.LayerMulAdds
}

func (t *Traffic) addLayer(w *layerWeights, s *Spec) {
	t.addGains(&w.attnNorm, &w.postAttnNorm, &w.ffnNorm, &w.postFFNNorm, &w.qNorm, &w.kNorm)
	for _, m := range []*linear{&w.q, &w.k, &w.v, &w.convIn} {
		t.add(m, 1)
	}
	t.WeightBytes += 4 * int64(len(w.conv)+len(w.convBias))
	t.LayerMulAdds += int64(len(w.conv))
	t.addBehindKeys(w, s)
}

func (t *Traffic) addBehindKeys(w *layerWeights, s *Spec) {
	for _, m := range []*linear{&w.o, &w.convOut, &w.router, &w.sharedGate} {
		t.add(m, 1)
	}
	t.addMLP(&w.mlp, 1)
	t.addMLP(&w.shared, 1)
	if len(w.experts) > 0 { // all have the same size
		t.addMLP(&w.experts[0], int64(s.ExpertsUsed))
	}
}

func (t *Traffic) addMLP(m *mlp, times int64) {
	t.add(&m.gate, times)
	t.add(&m.up, times)
	t.add(&m.down, times)
}

func (t *Traffic) add(m *linear, times int64) {
	if !m.present() {
		return
	}
	t.WeightBytes += times * int64(m.Rows*m.rowBytes()+4*len(m.bias))
	t.LayerMulAdds += times * int64(m.Rows) * int64(m.Cols)
}

func (t *Traffic) addGains(gains ...*gain) {
	for _, g := range gains {
		t.WeightBytes += 4 * int64(len(g.weight)+len(g.bias))
	}
}

// KVBytesRead returns how many bytes of keys and values attention reads for the
// token at position pos.
func (m *Model) KVBytesRead(pos int) int64 {
	heads := 0
	for _, l := range m.Spec.Layers {
		heads += l.KVHeads
	}
	if heads == 0 {
		return 0
	}
	perHead := m.KVBytesPerToken() / int64(heads)
	var n int64
	for _, l := range m.Spec.Layers {
		seen := pos + 1
		if l.Window > 0 {
			seen = min(seen, l.Window)
		}
		n += int64(seen) * int64(l.KVHeads) * perHead
	}
	return n
}
