package recurrent

import "github.com/llmrun/llmrun/exec/arch"

// place locates the state of one layer in a copy of all layers.
type place struct {
	at       int // of the layer's first float
	channels int // of its convolution; 0: the layer has no state
	taps     int // tokens that the convolution reaches back to, the newest included
	matrices int // floats of its matrices: [heads, blocks, key, columns]
	step     int // floats of a recorded token, see steps
}

// conv returns the floats of the convolution's state: [taps-1, channels].
func (p *place) conv() int { return (p.taps - 1) * p.channels }

// floats returns the floats of the layer's state.
func (p *place) floats() int { return p.conv() + p.matrices }

// layout locates the state of all layers, and returns the floats of a copy.
func layout(spec *arch.Spec) (places []place, floats int) {
	places = make([]place, len(spec.Layers))
	for l := range spec.Layers {
		p := &places[l]
		p.at = floats
		switch r := &spec.Recurrence; spec.Layers[l].Mixer {
		case arch.ShortConv:
			p.channels, p.taps, p.step = spec.Dim, spec.ConvTaps, spec.Dim
		case arch.Recurrent, arch.AttentionAndRecurrent:
			p.channels, p.taps = r.Channels(), r.Taps
			p.matrices = r.Heads * r.Key * r.Value
			p.step = StepFloats(r)
		}
		floats += p.floats()
	}
	return places, floats
}
