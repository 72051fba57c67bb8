package exec

import "fmt"

// tensorName returns what GGUF files call a tensor; layer -1 stands for the
// ends of the network.
func tensorName(role string, layer int, suffix string) string {
	if layer < 0 {
		return role + suffix
	}
	return fmt.Sprintf("blk.%d.%s%s", layer, role, suffix)
}

// put plans a matrix that must be there.
func (ld *loader) put(m *Matrix, role string, layer int, s slot, err error) error {
	if err != nil {
		return err
	}
	ld.plan = append(ld.plan, placement{
		name: tensorName(role, layer, ".weight"), slot: s, matrix: m, tile: ld.tiles(&s),
	})
	return ld.putOrder(m, role, layer, &s)
}

// putVector plans elements that may be there.
func (ld *loader) putVector(v *[]float32, role string, layer int, suffix string, n int) error {
	s, ok, err := ld.ts.vector(role, layer, suffix, n)
	if ok && err == nil {
		ld.plan = append(ld.plan, placement{name: tensorName(role, layer, suffix), slot: s, vector: v})
	}
	return err
}

// gain plans a norm that must be there.
func (ld *loader) gain(g *gain, role string, layer, n int) error {
	if _, ok := ld.ts.find(role, layer, ".weight"); !ok {
		return ld.ts.missing(role, layer)
	}
	if err := ld.putVector(&g.weight, role, layer, ".weight", n); err != nil {
		return err
	}
	if !ld.spec.Norm.Layer {
		return nil
	}
	return ld.putVector(&g.bias, role, layer, ".bias", n)
}

// linear plans a matrix that must be there and the bias that may be.
func (ld *loader) linear(m *linear, role string, layer, rows, cols int) error {
	s, err := ld.ts.matrix(role, layer, rows, cols)
	if err := ld.put(&m.Matrix, role, layer, s, err); err != nil {
		return err
	}
	return ld.putVector(&m.bias, role, layer, ".bias", s.rows)
}

// planEnds plans what stands before and after the layers: the embedding apart,
// if its rows are only looked up and never multiplied.
func (ld *loader) planEnds(w *weights) (plans []layout, err error) {
	s := ld.spec
	ld.plan = nil
	embed, err := ld.ts.matrix("token_embd", -1, s.Vocab, s.Dim)
	if err := ld.put(&w.embed.Matrix, "token_embd", -1, embed, err); err != nil {
		return nil, err
	}
	_, hasHead := ld.ts.find("output", -1, ".weight")
	tied := s.Tied || (!hasHead && (ld.ts.h.GGUF || ld.ts.h.Tied == nil))
	if !tied {
		ld.plan[0].tile = false
		plans = append(plans, layout{name: "embedding", kind: embeddingLayout, places: ld.plan})
		ld.plan = nil
	}
	normRole := "output_norm"
	if _, ok := ld.ts.find(normRole, -1, ".weight"); !ok && ld.ts.h.GGUF {
		if _, ok := ld.ts.find("token_embd_norm", -1, ".weight"); ok {
			normRole = "token_embd_norm" // what the first lfm2 files called it
		}
	}
	if err := ld.gain(&w.norm, normRole, -1, s.Dim); err != nil {
		return nil, err
	}
	if !tied {
		if err := ld.linear(&w.head, "output", -1, s.Vocab, s.Dim); err != nil {
			return nil, err
		}
	}
	return append(plans, layout{name: "ends", kind: endsLayout, layer: len(s.Layers), places: ld.plan}), nil
}

// planLayer plans one layer in the order in which the forward pass uses it.
func (ld *loader) planLayer(l int, w *layerWeights) error {
	s := ld.spec
	if s.PreNorm {
		if err := ld.gain(&w.attnNorm, "attn_norm", l, s.Dim); err != nil {
			return err
		}
	}
	mixer := ld.planAttention
	if s.Layers[l].Mixer == ShortConv {
		mixer = ld.planConv
	}
	if err := mixer(l, w); err != nil {
		return err
	}
	if s.PostNorm {
		if err := ld.gain(&w.postAttnNorm, "post_attention_norm", l, s.Dim); err != nil {
			return err
		}
	}
	if s.PreNorm && s.Parallel != ParallelOne {
		if err := ld.gain(&w.ffnNorm, "ffn_norm", l, s.Dim); err != nil {
			return err
		}
	}
	ffn := ld.planMLP
	if s.Layers[l].Experts {
		ffn = ld.planExperts
	}
	if err := ffn(l, w); err != nil {
		return err
	}
	if s.PostNorm {
		return ld.gain(&w.postFFNNorm, "post_ffw_norm", l, s.Dim)
	}
	return nil
}

func (ld *loader) planAttention(l int, w *layerWeights) error {
	s := ld.spec
	kv := s.Layers[l].KVHeads
	for p, m := range []*linear{&w.q, &w.k, &w.v} {
		matrix, bias, hasBias, err := ld.ts.qkv(part(p), l, kv)
		if err := ld.put(&m.Matrix, partRoles[p], l, matrix, err); err != nil {
			return err
		}
		if hasBias {
			ld.plan = append(ld.plan, placement{name: tensorName(partRoles[p], l, ".bias"), slot: bias, vector: &m.bias})
		}
	}
	if s.QKNorm != NoQKNorm {
		nq, nk := s.HeadDim, s.HeadDim
		if s.QKNorm == QKNormWhole {
			nq, nk = s.HeadDim*s.Heads, s.HeadDim*kv
		}
		if err := ld.gain(&w.qNorm, "attn_q_norm", l, nq); err != nil {
			return err
		}
		if err := ld.gain(&w.kNorm, "attn_k_norm", l, nk); err != nil {
			return err
		}
	}
	return ld.linear(&w.o, "attn_output", l, s.Dim, s.HeadDim*s.Heads)
}

func (ld *loader) planConv(l int, w *layerWeights) error {
	s := ld.spec
	if err := ld.linear(&w.convIn, "shortconv.in_proj", l, 3*s.Dim, s.Dim); err != nil {
		return err
	}
	if _, ok := ld.ts.find("shortconv.conv", l, ".weight"); !ok {
		return ld.ts.missing("shortconv.conv", l)
	}
	if err := ld.putVector(&w.conv, "shortconv.conv", l, ".weight", s.Dim*s.ConvTaps); err != nil {
		return err
	}
	if err := ld.putVector(&w.convBias, "shortconv.conv", l, ".bias", s.Dim); err != nil {
		return err
	}
	return ld.linear(&w.convOut, "shortconv.out_proj", l, s.Dim, s.Dim)
}

func (ld *loader) planMLP(l int, w *layerWeights) error {
	s := ld.spec
	if !s.Gated {
		if err := ld.linear(&w.mlp.up, "ffn_up", l, 0, s.Dim); err != nil {
			return err
		}
	} else {
		gate, up, err := ld.ts.gateUp(l)
		if err := ld.put(&w.mlp.gate.Matrix, "ffn_gate", l, gate, err); err != nil {
			return err
		}
		if err := ld.put(&w.mlp.up.Matrix, "ffn_up", l, up, nil); err != nil {
			return err
		}
		for _, b := range []struct {
			role string
			m    *linear
		}{{"ffn_gate", &w.mlp.gate}, {"ffn_up", &w.mlp.up}} {
			if err := ld.putVector(&b.m.bias, b.role, l, ".bias", up.rows); err != nil {
				return err
			}
		}
	}
	inner := ld.plannedRows(&w.mlp.up.Matrix)
	return ld.linear(&w.mlp.down, "ffn_down", l, s.Dim, inner)
}

// plannedRows returns the rows of a matrix that was planned but not yet read.
func (ld *loader) plannedRows(m *Matrix) int {
	for _, p := range ld.plan {
		if p.matrix == m {
			return p.slot.rows
		}
	}
	return 0
}

func (ld *loader) planExperts(l int, w *layerWeights) error {
	s := ld.spec
	if err := ld.linear(&w.router, "ffn_gate_inp", l, s.Experts, s.Dim); err != nil {
		return err
	}
	w.experts = make([]mlp, s.Experts)
	inner := 0 // the first expert's size; the others must have it too
	layer := ld.plan
	for i := range w.experts {
		ld.plan = nil
		e := &w.experts[i]
		up, err := ld.ts.expert("ffn_up_exps", l, i, s.Experts, inner, s.Dim)
		if err := ld.put(&e.up.Matrix, expertRole("ffn_up", i), l, up, err); err != nil {
			return err
		}
		inner = up.rows
		gate, err := ld.ts.expert("ffn_gate_exps", l, i, s.Experts, up.rows, s.Dim)
		if err := ld.put(&e.gate.Matrix, expertRole("ffn_gate", i), l, gate, err); err != nil {
			return err
		}
		down, err := ld.ts.expert("ffn_down_exps", l, i, s.Experts, s.Dim, up.rows)
		if err := ld.put(&e.down.Matrix, expertRole("ffn_down", i), l, down, err); err != nil {
			return err
		}
		ld.experts = append(ld.experts, layout{
			name: fmt.Sprintf("blk.%d.expert.%d", l, i), kind: expertLayout, layer: l, places: ld.plan,
		})
	}
	ld.plan = layer
	return ld.planShared(l, w)
}

// planShared plans the expert that every token uses, where there is one.
func (ld *loader) planShared(l int, w *layerWeights) error {
	up, ok := ld.ts.find("ffn_up_shexp", l, ".weight")
	if !ok {
		return nil
	}
	rows, err := ld.ts.rowsOf(up, ld.spec.Dim)
	if err != nil {
		return err
	}
	if err := ld.linear(&w.shared.gate, "ffn_gate_shexp", l, rows, ld.spec.Dim); err != nil {
		return err
	}
	if err := ld.linear(&w.shared.up, "ffn_up_shexp", l, rows, ld.spec.Dim); err != nil {
		return err
	}
	if err := ld.linear(&w.shared.down, "ffn_down_shexp", l, ld.spec.Dim, rows); err != nil {
		return err
	}
	if _, ok := ld.ts.find("ffn_gate_inp_shexp", l, ".weight"); !ok {
		return nil
	}
	return ld.linear(&w.sharedGate, "ffn_gate_inp_shexp", l, 1, ld.spec.Dim)
}
