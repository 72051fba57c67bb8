package weights

import "github.com/llmrun/llmrun/exec/modelfile"

// EachStream calls do with every matrix of several residual streams, and of the second residual path.
func (w *LayerWeights) EachStream(do func(role string, w *Linear)) {
	a := &w.AltUp
	for i := range a.In {
		do(modelfile.ExpertRole(streamsIn, i), &a.In[i])
	}
	do("laurel_l", &a.Left)
	do("laurel_r", &a.Right)
	for i := range a.Out {
		do(modelfile.ExpertRole(streamsOut, i), &a.Out[i])
	}
}

// The roles of the matrices that make streams and join them.
const streamsIn, streamsOut = "altup_proj", "altup_unembd_proj"

// planStreams plans what a layer does with several residual streams before attention.
func (ld *Loader) planStreams(l int, w *LayerWeights) error {
	s, a := ld.Spec, &w.AltUp
	if s.AltUp.Streams == 0 {
		return nil
	}
	if l == 0 {
		if err := ld.planStack(&a.In, streamsIn, l); err != nil {
			return err
		}
	}
	n := s.AltUp.Streams
	if err := ld.planGain(&a.RouterNorm, "altup_router_norm", l, s.Dim); err != nil {
		return err
	}
	for _, v := range []struct {
		to   *[]float32
		role string
		n    int
	}{{&a.Router, "altup_router", n * s.Dim}, {&a.Predict, "altup_predict_coef", n * n * n}, {&a.Correct, "altup_correct_coef", n * n}} {
		if err := ld.planRequired(v.to, v.role, l, v.n); err != nil {
			return err
		}
	}
	if s.AltUp.Unscaled {
		return nil
	}
	return ld.planBare(&a.Scale, "altup_correct_scale", l, s.Dim)
}

// planJoin plans what joins the streams behind the last layer.
func (ld *Loader) planJoin(l int, w *LayerWeights) error {
	if ld.Spec.AltUp.Streams == 0 || l != len(ld.Spec.Layers)-1 {
		return nil
	}
	return ld.planStack(&w.AltUp.Out, streamsOut, l)
}

// planStack plans the matrices of all streams but the active one. Files have them outside of the layers; here
// and in packs they belong to the layer that uses them.
func (ld *Loader) planStack(to *[]Linear, role string, l int) error {
	n, from := ld.Spec.AltUp.Streams-1, ld.Tensors.OutsideLayers(l)
	*to = make([]Linear, n)
	for i := range *to {
		m, err := ld.Tensors.Expert(role, from, i, n, ld.Spec.Dim, ld.Spec.Dim)
		if err := ld.planMatrix(&(*to)[i].Matrix, modelfile.ExpertRole(role, i), l, m, err); err != nil {
			return err
		}
	}
	return nil
}

// planLeft plans the first matrix of the second residual path, which reads what attention reads.
func (ld *Loader) planLeft(l int, w *LayerWeights) error {
	if ld.Spec.LaurelRank == 0 {
		return nil
	}
	return ld.planLinear(&w.AltUp.Left, "laurel_l", l, ld.Spec.LaurelRank, ld.Spec.Dim)
}

// planRight plans the rest of the second residual path, which is computed with attention's output.
func (ld *Loader) planRight(l int, w *LayerWeights) error {
	if ld.Spec.LaurelRank == 0 {
		return nil
	}
	if err := ld.planLinear(&w.AltUp.Right, "laurel_r", l, ld.Spec.Dim, ld.Spec.LaurelRank); err != nil {
		return err
	}
	return ld.planGain(&w.AltUp.LaurelNorm, "laurel_post_norm", l, ld.Spec.Dim)
}
