package weights

import "github.com/llmrun/llmrun/exec/modelfile"

// planLatent plans a layer with latent attention.
func (ld *Loader) planLatent(l int, w *LayerWeights) error {
	s, n, a := ld.Spec, &w.Latent, ld.Spec.Latent
	queries := s.Heads * (a.Nope + a.Rope)
	q, from := &w.Q, s.Dim
	role := "attn_q"
	if a.QRank > 0 {
		if err := ld.planLinear(&n.QA, "attn_q_a", l, a.QRank, s.Dim); err != nil {
			return err
		}
		if err := ld.planGain(&n.QNorm, "attn_q_a_norm", l, a.QRank); err != nil {
			return err
		}
		q, role, from = &n.QB, "attn_q_b", a.QRank
	}
	if err := ld.planLinear(&n.KV, "attn_kv_a_mqa", l, a.Rank+a.Rope, s.Dim); err != nil {
		return err
	}
	if err := ld.planGain(&n.KVNorm, "attn_kv_a_norm", l, a.Rank); err != nil {
		return err
	}
	if err := ld.planLinear(q, role, l, queries, from); err != nil {
		return err
	}
	n.Keys, n.Values = make([]Linear, s.Heads), make([]Linear, s.Heads)
	if err := ld.planHeads(n.Keys, "attn_k_b", l, a.Rank, a.Nope); err != nil {
		return err
	}
	if err := ld.planHeads(n.Values, "attn_v_b", l, a.Value, a.Rank); err != nil {
		return err
	}
	return ld.planLinear(&w.O, "attn_output", l, s.Dim, s.Heads*a.Value)
}

// planHeads plans a matrix of each head, which files have in one tensor.
func (ld *Loader) planHeads(heads []Linear, role string, l, rows, cols int) error {
	for h := range heads {
		m, err := ld.Tensors.Expert(role, l, h, len(heads), rows, cols)
		if err := ld.planMatrix(&heads[h].Matrix, modelfile.ExpertRole(role, h), l, m, err); err != nil {
			return err
		}
	}
	return nil
}
