package synth

import "slices"

// States holds the sizes of Mamba-2, in models that have it in some layers.
type States struct {
	Heads   int // 0 = the family has no such layers
	HeadDim int
	Groups  int // of heads with the same keys and queries
	Size    int // elements of a key
	Taps    int // of the convolution
	Normed  bool
	Beside  bool  // attention is in the same layers
	Attends []int // the layers that have attention instead
	// Blocks has a letter for each layer, whose only block it is: M Mamba-2, * attention, - an MLP, E experts.
	// If it is empty, each layer has an MLP or experts behind the others.
	Blocks string
}

// on reports whether the model has such layers.
func (m *States) on() bool { return m.Heads > 0 }

// inLayer reports whether a layer has Mamba-2.
func (m *States) inLayer(l int) bool {
	if m.Blocks != "" {
		return m.Blocks[l] == 'M'
	}
	return m.on() && !slices.Contains(m.Attends, l)
}

// attends reports whether a layer of the family has attention.
func (m *States) attends(l int) bool {
	if m.Blocks != "" {
		return m.Blocks[l] == '*'
	}
	return m.Beside || slices.Contains(m.Attends, l)
}

// hasMLP reports whether a layer has an MLP or experts.
func (m *States) hasMLP(l int) bool {
	return m.Blocks == "" || m.Blocks[l] == '-' || m.Blocks[l] == 'E'
}

// inner returns the elements of all heads.
func (m *States) inner() int { return m.Heads * m.HeadDim }

// states adds the tensors of Mamba-2.
func (s *Shape) states(l *layerTensors) {
	m := &s.States
	channels := m.inner() + 2*m.Groups*m.Size
	l.add("ssm_in.weight", roleMatrix, fillMatrix, m.inner()+channels+m.Heads, s.Dim)
	l.add("ssm_conv1d.weight", roleNone, fillGain, channels, m.Taps)
	l.add("ssm_conv1d.bias", roleNone, fillBias, channels)
	l.add("ssm_dt.bias", roleNone, fillBias, m.Heads)
	l.add("ssm_a", roleNone, fillDecay, m.Heads, 1)
	l.add("ssm_d", roleNone, fillGain, m.Heads, 1)
	if m.Normed {
		l.add("ssm_norm.weight", roleNone, fillGain, m.Groups, m.inner()/m.Groups)
	}
	l.add("ssm_out.weight", roleMatrix, fillMatrix, s.Dim, m.inner())
}

// keys adds the sizes.
func (m *States) keys(k *keys) {
	if !m.on() {
		return
	}
	k.putInt("ssm.conv_kernel", m.Taps)
	k.putInt("ssm.state_size", m.Size)
	k.putInt("ssm.group_count", m.Groups)
	k.putInt("ssm.inner_size", m.inner())
	k.putInt("ssm.time_step_rank", m.Heads)
}
