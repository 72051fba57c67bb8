package exec

import (
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/tiering"
)

const (
	// prefetchBytes is the number of bytes of the next step's weights that a waiting thread
	// prefetches into its cache. It can load them during the wait, and they fit into small caches.
	prefetchBytes = 128 << 10
	// prefetchTokens is the maximum number of tokens with which matmuls are bound by memory.
	prefetchTokens = 8
)

// prefetch announces the matrices that the step after the next reads. Threads that wait at the
// end of the next step prefetch them. The announcement is only a hint.
func (s *passState) prefetch(next ...*weights.Linear) {
	if s.n > prefetchTokens || len(s.workers) == 1 {
		return
	}
	units := 0
	for _, w := range next {
		units += len(w.Data)
	}
	for worker := range s.workers {
		s.prefetchAt(worker, s.m.workers.HomeStart(worker, units), next)
	}
}

// prefetchAt makes a waiting thread prefetch the weights at an offset; the matrices count as
// concatenated.
func (s *passState) prefetchAt(worker, at int, next []*weights.Linear) {
	for _, w := range next {
		if at < len(w.Data) {
			_, unit := w.Unit()
			at = min((at+unit-1)/unit*unit, len(w.Data))
			s.m.workers.Prefetch(worker, tiering.Address(w.Data[at:]), min(prefetchBytes, len(w.Data)-at))
			return
		}
		at -= len(w.Data)
	}
}

// prefetchLayer is prefetch for the first step of a layer, or of the output.
func (s *passState) prefetchLayer(l int) {
	layers := s.m.weights.Layers
	switch {
	case l >= len(layers):
		s.prefetch(&s.m.weights.Head)
	case s.m.Spec.Layers[l].Mixer.Attends():
		s.prefetch(&layers[l].Q, &layers[l].K, &layers[l].V)
	}
}

// prefetchMLP is prefetch for the first step of the layer's MLP.
func (s *passState) prefetchMLP() {
	switch w := &s.w.MLP; {
	case s.layer.Experts:
	case s.m.Spec.Gated:
		s.prefetch(&w.Gate, &w.Up)
	default:
		s.prefetch(&w.Up)
	}
}
