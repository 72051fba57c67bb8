package gpupass

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
)

// supported are the fields of a network that the device computes, or that package exec computes around it. A new
// field must be added here when it has a kernel, and to refused before.
var supported = []string{
	"Spec.Family", "Spec.Dim", "Spec.Heads", "Spec.Inner", "Spec.Vocab", "Spec.Context", "Spec.ContextFrom",
	"Spec.AttnScale", "Spec.FinalSoftcap", "Spec.EmbedScale", "Spec.ResidualScale", "Spec.LogitScale",
	"Spec.Layers", "Spec.Ropes", "Spec.Tied", "Spec.Interleave",
	"NormSpec.Eps", "NormSpec.Offset", "LayerSpec.KVHeads", "LayerSpec.Window", "LayerSpec.Rope",
	"RopeTable.Dim", "RopeTable.Freq", "RopeTable.Gain", "RopeTable.LongFreq", "RopeTable.Switch",
}

// onlyWith are fields without meaning unless a field is set that refused has.
var onlyWith = []string{
	"Spec.ExpertsUsed", "Spec.Groups", "Spec.RouterSigmoid", "Spec.RoutedScale", "Spec.NormTopK", "Spec.ExpertBias",
	"Spec.DenseBeside",                 // experts
	"Spec.GateLimit",                   // ClampedSiLU
	"Spec.ConvTaps", "Spec.Recurrence", // a mixer of a layer
	"Spec.Norm", // its fields are listed
	"LayerSpec.ValueDim", "LayerSpec.Deviations",
}

// refused changes each of the other fields of a supported network to a value without a kernel.
var refused = map[string][]func(s *arch.Spec, l *arch.LayerSpec){
	"NormSpec.Layer": {func(s *arch.Spec, _ *arch.LayerSpec) { s.Norm.Layer = true }},
	"Spec.HeadDim":   {func(s *arch.Spec, _ *arch.LayerSpec) { s.HeadDim = 2 * maxHeadDim }},
	"Spec.Act": {
		func(s *arch.Spec, _ *arch.LayerSpec) { s.Act = arch.ReLU2 },
		func(s *arch.Spec, _ *arch.LayerSpec) { s.Act = arch.ClampedSiLU },
	},
	"Spec.Gated": {func(s *arch.Spec, _ *arch.LayerSpec) { s.Gated = false }},
	"Spec.QKNorm": {
		func(s *arch.Spec, _ *arch.LayerSpec) { s.QKNorm = arch.QKNormAllHeads },
		func(s *arch.Spec, _ *arch.LayerSpec) { s.QKNorm = arch.QKNormRotated },
	},
	"Spec.AttnOutScale":   {func(s *arch.Spec, _ *arch.LayerSpec) { s.AttnOutScale = 2 }},
	"Spec.GateScale":      {func(s *arch.Spec, _ *arch.LayerSpec) { s.GateScale = 2 }},
	"Spec.MLPScale":       {func(s *arch.Spec, _ *arch.LayerSpec) { s.MLPScale = 2 }},
	"Spec.GatedAttention": {func(s *arch.Spec, _ *arch.LayerSpec) { s.GatedAttention = true }},
	"Spec.VNorm":          {func(s *arch.Spec, _ *arch.LayerSpec) { s.VNorm = true }},
	"Spec.PreNorm":        {func(s *arch.Spec, _ *arch.LayerSpec) { s.PreNorm = false }},
	"Spec.PostNorm":       {func(s *arch.Spec, _ *arch.LayerSpec) { s.PostNorm = true }},
	"Spec.SumNorm":        {func(s *arch.Spec, _ *arch.LayerSpec) { s.SumNorm = true }},
	"Spec.Encoder": {
		func(s *arch.Spec, _ *arch.LayerSpec) { s.Encoder.Bidirectional = true },
		func(s *arch.Spec, _ *arch.LayerSpec) { s.Encoder.Positions = 512 },
		func(s *arch.Spec, _ *arch.LayerSpec) { s.Encoder.EmbedNorm = true },
		func(s *arch.Spec, _ *arch.LayerSpec) { s.Encoder.NoFinalNorm = true },
	},
	"Spec.Parallel": {
		func(s *arch.Spec, _ *arch.LayerSpec) { s.Parallel = arch.ParallelSharedNorm },
		func(s *arch.Spec, _ *arch.LayerSpec) { s.Parallel = arch.ParallelTwoNorms },
	},
	"Spec.AttnSoftcap": {func(s *arch.Spec, _ *arch.LayerSpec) { s.AttnSoftcap = 30 }},
	"Spec.ClipQKV":     {func(s *arch.Spec, _ *arch.LayerSpec) { s.ClipQKV = 8 }},
	"Spec.QueryGrowth": {func(s *arch.Spec, _ *arch.LayerSpec) { s.QueryGrowth = arch.QueryGrowth{Beta: 0.1, Every: 64} }},
	"Spec.Sinks":       {func(s *arch.Spec, _ *arch.LayerSpec) { s.Sinks = true }},
	"Spec.Experts":     {func(s *arch.Spec, _ *arch.LayerSpec) { s.Experts = 4 }},
	"Spec.AltUp":       {func(s *arch.Spec, _ *arch.LayerSpec) { s.AltUp.Streams = 4 }},
	"Spec.LaurelRank":  {func(s *arch.Spec, _ *arch.LayerSpec) { s.LaurelRank = 8 }},
	"Spec.PerLayer":    {func(s *arch.Spec, _ *arch.LayerSpec) { s.PerLayer = 16 }},
	"Spec.Latent":      {func(s *arch.Spec, _ *arch.LayerSpec) { s.Latent.Rank = 16 }},
	"Spec.LayerScale":  {func(s *arch.Spec, _ *arch.LayerSpec) { s.LayerScale = true }},
	"Spec.Headless":    {func(s *arch.Spec, _ *arch.LayerSpec) { s.Headless = true }},
	"LayerSpec.Mixer": {
		func(_ *arch.Spec, l *arch.LayerSpec) { l.Mixer = arch.ShortConv },
		func(_ *arch.Spec, l *arch.LayerSpec) { l.Mixer = arch.Recurrent },
		func(_ *arch.Spec, l *arch.LayerSpec) { l.Mixer = arch.AttentionAndRecurrent },
		func(_ *arch.Spec, l *arch.LayerSpec) { l.Mixer = arch.NoMixer },
	},
	"LayerSpec.HeadDim":    {func(_ *arch.Spec, l *arch.LayerSpec) { l.HeadDim = 32 }},
	"LayerSpec.KVBack":     {func(_ *arch.Spec, l *arch.LayerSpec) { l.KVBack = 1 }},
	"LayerSpec.KeyIsValue": {func(_ *arch.Spec, l *arch.LayerSpec) { l.KeyIsValue = true }},
	"LayerSpec.Experts":    {func(_ *arch.Spec, l *arch.LayerSpec) { l.Experts = true }},
	"LayerSpec.Sparse":     {func(_ *arch.Spec, l *arch.LayerSpec) { l.Sparse = true }},
	"LayerSpec.NoAttnNorm": {func(_ *arch.Spec, l *arch.LayerSpec) { l.NoAttnNorm = true }},
	"LayerSpec.NoMLP":      {func(_ *arch.Spec, l *arch.LayerSpec) { l.NoMLP = true }},
}

// plainSpec returns a network that the device computes.
func plainSpec() *arch.Spec {
	layer := arch.LayerSpec{KVHeads: 2, HeadDim: 64, ValueDim: 64}
	return &arch.Spec{
		Family: "plain", Dim: 256, Heads: 4, HeadDim: 64, Gated: true, PreNorm: true,
		AttnOutScale: 1, GateScale: 1, MLPScale: 1, Layers: []arch.LayerSpec{layer, layer},
	}
}

// TestEveryFieldIsDecided: each field of a network is either computed, or refused by an error that names the family.
func TestEveryFieldIsDecided(t *testing.T) {
	require.NoError(t, checkSupported(plainSpec()))
	decided := map[string]int{}
	for _, names := range [][]string{supported, onlyWith} {
		for _, name := range names {
			decided[name]++
		}
	}
	for name, changes := range refused {
		decided[name]++
		for i, change := range changes {
			s := plainSpec()
			change(s, &s.Layers[1])
			err := checkSupported(s)
			require.ErrorIs(t, err, arch.ErrUnsupported, "%s, change %d", name, i)
			require.ErrorContains(t, err, "family plain")
		}
	}
	fields := map[string]int{}
	for _, part := range []any{arch.Spec{}, arch.LayerSpec{}, arch.NormSpec{}, arch.RopeTable{}} {
		for kind, i := reflect.TypeOf(part), 0; i < kind.NumField(); i++ {
			fields[kind.Name()+"."+kind.Field(i).Name] = 1
		}
	}
	require.Equal(t, fields, decided, "fields of arch.Spec, and those that this test decides once")
}
