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
		{!s.PreNorm || s.PostNorm, "norms behind attention and MLP"},
		{s.Parallel != arch.Serial, "attention beside the MLP"},
		{s.QKNorm == arch.QKNormAllHeads, "norms of all queries together"},
		{s.AttnSoftcap != 0, "capped attention scores"},
		{s.ClipQKV != 0, "clipped queries and keys"},
		{s.Experts > 0, "experts"},
		{s.HeadDim%4 != 0 || s.HeadDim > maxHeadDim, fmt.Sprintf("heads of %d elements", s.HeadDim)},
	} {
		if c.has {
			return unsupported(s, c.what)
		}
	}
	for _, l := range s.Layers {
		if l.Mixer != arch.Attention {
			return unsupported(s, "convolutions")
		}
	}
	return nil
}

func unsupported(s *arch.Spec, what string) error {
	return fmt.Errorf("%w on a GPU: %s of family %s; run it on the CPU", arch.ErrUnsupported, what, s.Family)
}
