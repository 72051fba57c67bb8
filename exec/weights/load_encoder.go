package weights

import "github.com/llmrun/llmrun/exec/arch"

// planEncoder plans what an encoder adds to the embedding.
func (ld *Loader) planEncoder(w *Weights) error {
	e, dim := &ld.Spec.Encoder, ld.Spec.Dim
	for _, table := range []struct {
		role string
		rows int
		v    *[]float32
	}{{"position_embd", e.Positions, &w.Encoder.Positions}, {"token_types", e.TokenTypes, &w.Encoder.Types}} {
		if table.rows == 0 {
			continue
		}
		if err := ld.planRequired(table.v, table.role, -1, table.rows*dim); err != nil {
			return err
		}
	}
	if !e.EmbedNorm {
		return nil
	}
	return ld.planGain(&w.Encoder.Norm, "token_embd_norm", -1, dim)
}

// normRoles returns the roles of the norms behind attention and MLP; "" if there are none.
func normRoles(s *arch.Spec) (attention, mlp string) {
	switch {
	case s.PostNorm:
		return "post_attention_norm", "post_ffw_norm"
	case s.SumNorm:
		return "attn_output_norm", "layer_output_norm"
	}
	return "", ""
}
