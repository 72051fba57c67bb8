package weights

import (
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
)

// planMixer plans what combines the tokens of a layer.
func (ld *Loader) planMixer(l int, w *LayerWeights) error {
	switch ld.Spec.Layers[l].Mixer {
	case arch.ShortConv:
		return ld.planConv(l, w)
	case arch.Recurrent:
		return ld.planRecurrent(l, w)
	case arch.AttentionAndRecurrent:
		if err := ld.planRecurrent(l, w); err != nil {
			return err
		}
	case arch.NoMixer:
		return nil
	}
	if ld.Spec.Latent.Rank > 0 {
		return ld.planLatent(l, w)
	}
	return ld.planAttention(l, w)
}

// planRecurrent plans a mixer with matrices.
func (ld *Loader) planRecurrent(l int, w *LayerWeights) error {
	r, m := &ld.Spec.Recurrence, &w.Recurrent
	parts := []*Linear{&m.In, &m.Gate, &m.Step, &m.Value}
	if !r.Delta {
		parts = parts[:3]
	}
	for p, part := range parts {
		s, err := ld.Tensors.StateProjection(modelfile.StateProjection(p), l, r)
		if err := ld.planMatrix(&part.Matrix, modelfile.StateRoles[p], l, s, err); err != nil {
			return err
		}
	}
	if err := ld.planRecurrentVectors(l, w); err != nil {
		return err
	}
	return ld.planLinear(&m.Out, "ssm_out", l, ld.Spec.Dim, r.Inner())
}

func (ld *Loader) planRecurrentVectors(l int, w *LayerWeights) error {
	r, v := &ld.Spec.Recurrence, &w.Recurrent.Vectors
	norm := r.Inner()
	if r.Delta {
		norm = r.Value
	}
	type vector struct {
		to           *[]float32
		role, suffix string
		n            int
		optional     bool
	}
	for _, c := range []vector{
		{&v.Kernel, "ssm_conv1d", ".weight", r.Channels() * r.Taps, false},
		{&v.Bias, "ssm_conv1d", ".bias", r.Channels(), true},
		{&v.Decay, "ssm_a", "", r.Heads, false},
		{&v.StepBias, "ssm_dt.bias", "", r.Heads, false},
		{&v.Skip, "ssm_d", "", r.Heads, r.Delta},
		{&v.Norm, "ssm_norm", ".weight", norm, r.NormGroups == 0},
	} {
		if _, ok := ld.Tensors.Find(c.role, l, c.suffix); !ok && !c.optional {
			return ld.Tensors.MissingVector(c.role, l, c.suffix)
		}
		if err := ld.planVector(c.to, c.role, l, c.suffix, c.n); err != nil {
			return err
		}
	}
	return nil
}

// planGatedQuery plans the queries of a layer and the gates that come with them.
func (ld *Loader) planGatedQuery(l int, w *LayerWeights) error {
	query, gate, err := ld.Tensors.GatedQuery(l, ld.Spec.Heads, ld.Spec.Layers[l].HeadDim)
	if err := ld.planMatrix(&w.Q.Matrix, modelfile.ProjectionRoles[0], l, query, err); err != nil {
		return err
	}
	return ld.planMatrix(&w.QGate.Matrix, modelfile.QueryGateRole, l, gate, nil)
}
