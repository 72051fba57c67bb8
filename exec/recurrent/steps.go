package recurrent

import (
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/tiering"
)

// steps are the inputs of a pass, token by token: the state behind each token follows from them. A row of a layer is
// the inputs of the convolution, [channels], and in layers with matrices what it gives, [channels], and the decay and
// the weight of each head, [2, heads].
type steps struct {
	rows   int         // tokens that it has room for; 0: it records nothing
	layers [][]float32 // [layer] -> [rows, step]; nil for layers without state
	frame  *tiering.Frame
}

// AllowSteps makes passes of up to so many tokens record their inputs.
func (s *State) AllowSteps(rows int, budget *tiering.Budget) error {
	if s.steps.rows >= rows {
		return nil
	}
	s.steps.free()
	n := steps{rows: rows}
	var probe tiering.Arena
	n.carve(&probe, s.places)
	frame, err := tiering.Alloc(budget, tiering.KVHot, probe.Need())
	if err != nil {
		return err
	}
	n.frame = frame
	arena := tiering.NewArena(frame)
	n.carve(arena, s.places)
	s.steps = n
	return arena.Err()
}

// Steps returns the most tokens of a pass that records its inputs.
func (s *State) Steps() int { return s.steps.rows }

// StepBytes returns the memory that AllowSteps takes.
func StepBytes(spec *arch.Spec, rows int) int64 {
	places, _ := layout(spec)
	n := steps{rows: rows}
	var probe tiering.Arena
	n.carve(&probe, places)
	return tiering.PageUp(int64(probe.Need()))
}

func (n *steps) carve(a *tiering.Arena, places []place) {
	n.layers = make([][]float32, len(places))
	for l := range places {
		if places[l].step > 0 {
			n.layers[l] = a.Floats(n.rows * places[l].step)
		}
	}
}

func (n *steps) free() {
	if n.frame != nil {
		n.frame.Free()
	}
	*n = steps{}
}

// Workers run the parts of a work, at the same time if they can.
type Workers interface {
	Run(parts int, fn func(part, worker int))
}

// rewind is what Rewind does.
type rewind struct {
	recorded *State
	keep     int
	part     func(part, worker int) // rewindPart, created once because creating it allocates
}

// Rewind makes the state behind the pass that behind the first keep tokens of it, whose inputs another state, or this
// one, has recorded: those of a branch or of the sequence itself.
func (s *State) Rewind(recorded *State, keep int, workers Workers) {
	s.rewind.recorded, s.rewind.keep = recorded, keep
	workers.Run(len(s.places)*s.layerParts(), s.rewind.part)
	s.rewind.recorded = nil
}

// layerParts returns the number of parts of a layer: its convolution and the parts of its matrices.
func (s *State) layerParts() int {
	if r := &s.spec.Recurrence; r.Heads > 0 {
		return 1 + Parts(r)
	}
	return 1
}

// rewindPart rewinds a part of a layer.
func (s *State) rewindPart(part, _ int) {
	l, part := part/s.layerParts(), part%s.layerParts()
	p := &s.places[l]
	if p.channels == 0 {
		return
	}
	a, keep := s.Layer(l, 0), s.rewind.keep
	var rows []float32 // none are needed if none stay
	if keep > 0 {
		rows = s.rewind.recorded.steps.layers[l]
	}
	switch {
	case part == 0:
		keepInputs(a.ConvNext, a.ConvNow, Rows{rows, p.step}, p.channels, 0, p.channels, keep)
	case p.matrices > 0:
		s.rewindMatrices(p, a, rows, part-1)
	}
}

// rewindMatrices rewinds one part of the matrices of a layer.
func (s *State) rewindMatrices(p *place, a Layer, rows []float32, part int) {
	r := &s.spec.Recurrence
	from := func(at int) Rows { return Rows{rows[min(at, len(rows)):], p.step} }
	in := Inputs{
		Channels: from(p.channels), Decay: from(2 * p.channels), Weight: from(2*p.channels + r.Heads),
	}
	Advance(r, a.MatrixNext, a.MatrixNow, part, &in, s.rewind.keep)
}

// StepFloats returns the floats of a recorded token of a layer with matrices.
func StepFloats(r *arch.Recurrence) int { return 2*r.Channels() + 2*r.Heads }

// Record copies what some tokens do to the matrices into the steps of a layer.
func (in *Inputs) Record(r *arch.Recurrence, steps []float32, tokens int) {
	step, channels := StepFloats(r), r.Channels()
	Record(steps, step, channels, in.Channels, 0, channels, tokens)
	Record(steps, step, 2*channels, in.Decay, 0, r.Heads, tokens)
	Record(steps, step, 2*channels+r.Heads, in.Weight, 0, r.Heads, tokens)
}
