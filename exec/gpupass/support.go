package gpupass

import (
	"fmt"

	"github.com/llmrun/llmrun/exec/arch"
)

// maxHeadDim is the largest head that attention kernels have local memory for.
const maxHeadDim = 256

// checkSupported rejects models with features that have no kernel.
func checkSupported(s *arch.Spec) error {
	for _, c := range []struct {
		has  bool
		what string
	}{
		{s.Norm.Layer, "LayerNorm"},
		{!s.Gated, "MLPs without a gate"},
		{s.Act > arch.GELUErf, "this activation"},
		{s.GatedAttention, "attention whose output is gated"},
		{scales(s.AttnOutScale) || scales(s.GateScale) || scales(s.MLPScale), "multipliers of attention and MLP"},
		{s.Headless, "a network without an output matrix"},
		{!s.PreNorm || s.PostNorm || s.SumNorm, "norms behind attention and MLP"},
		{s.Parallel != arch.Serial, "attention beside the MLP"},
		{s.QKNorm == arch.QKNormAllHeads, "norms of all queries together"},
		{s.AttnSoftcap != 0, "capped attention scores"},
		{s.ClipQKV != 0, "clipped queries and keys"},
		{s.QKNorm == arch.QKNormRotated, "norms after the rotation"},
		{s.Encoder != arch.Encoder{}, "attention to later tokens"},
		{s.Sinks, "attention sinks"},
		{s.QueryGrowth != arch.QueryGrowth{}, "queries that grow with the position"},
		{s.Experts > 0, "experts"},
		{s.Latent.Rank > 0, "latent attention"},
		{s.AltUp.Streams > 0 || s.LaurelRank > 0, "several residual streams"},
		{s.PerLayer > 0 || s.LayerScale || s.VNorm, "layers' own embeddings or scales"},
		{s.HeadDim%4 != 0 || s.HeadDim > maxHeadDim, fmt.Sprintf("heads of %d elements", s.HeadDim)},
	} {
		if c.has {
			return unsupported(s, c.what)
		}
	}
	for _, l := range s.Layers {
		if l.Mixer != arch.Attention {
			return unsupported(s, "layers without attention, or with more")
		}
		if l.NoMLP || l.Experts || l.Sparse {
			return unsupported(s, "layers without an MLP, with experts or with a sparse MLP")
		}
		if l.NoAttnNorm {
			return unsupported(s, "attention without a norm before it")
		}
		if l.HeadDim != s.HeadDim || l.KVBack > 0 || l.KeyIsValue {
			return unsupported(s, "layers with different heads or shared keys and values")
		}
	}
	return nil
}

// scales reports whether a multiplier changes anything; 0 means that there is none.
func scales(factor float32) bool { return factor != 0 && factor != 1 }

func unsupported(s *arch.Spec, what string) error {
	return fmt.Errorf("%w on a GPU: %s of family %s; run it on the CPU", arch.ErrUnsupported, what, s.Family)
}
