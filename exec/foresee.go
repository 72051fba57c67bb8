package exec

import (
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/tiering"
)

const (
	// aheadBytes is how much of the next step's weights a waiting thread asks for:
	// what it could read while it waits, and less than small caches hold.
	aheadBytes = 128 << 10
	// aheadTokens is the most tokens with which products wait for memory.
	aheadTokens = 8
)

// foresee says which matrices the step after the next one is going to read, so
// that threads that wait at the end of the next one ask for them. It may be wrong.
func (p *pass) foresee(next ...*weights.Linear) {
	if p.n > aheadTokens || len(p.workers) == 1 {
		return
	}
	units := 0
	for _, w := range next {
		units += len(w.Data)
	}
	for worker := range p.workers {
		at := p.m.workers.HomeStart(worker, units)
		for _, w := range next {
			if at < len(w.Data) {
				_, unit := w.Unit()
				at = min((at+unit-1)/unit*unit, len(w.Data))
				p.m.workers.Prefetch(worker, tiering.Address(w.Data[at:]), min(aheadBytes, len(w.Data)-at))
				break
			}
			at -= len(w.Data)
		}
	}
}

// foreseeLayer is foresee for the first step of a layer, or of the output.
func (p *pass) foreseeLayer(l int) {
	layers := p.m.weights.Layers
	switch {
	case l >= len(layers):
		p.foresee(&p.m.weights.Head)
	case p.m.Spec.Layers[l].Mixer != arch.ShortConv:
		p.foresee(&layers[l].Q, &layers[l].K, &layers[l].V)
	}
}

// foreseeMLP is foresee for the first step of the layer's MLP.
func (p *pass) foreseeMLP() {
	switch w := &p.w.MLP; {
	case p.layer.Experts:
	case p.m.Spec.Gated:
		p.foresee(&w.Gate, &w.Up)
	default:
		p.foresee(&w.Up)
	}
}
