package recurrent

import (
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/tiering"
)

// State is the recurrent state of one sequence. One goroutine at a time may use it.
type State struct {
	spec   *arch.Spec
	places []place

	now, next, mark []float32 // [floats] of all layers; see the package
	markAt          int       // tokens before the mark; 0: there is none
	frame           *tiering.Frame

	steps  steps
	rewind rewind
}

// The copies of a state.
const (
	branchCopies = 1 // a branch reads the first copy of its sequence
	ownCopies    = 3
)

// New returns the state before the first token, nil if the model has none.
func New(spec *arch.Spec, budget *tiering.Budget) (*State, error) {
	s, err := newState(spec, budget, ownCopies)
	if s == nil || err != nil {
		return nil, err
	}
	n := len(s.now) / ownCopies
	s.now, s.next, s.mark = s.now[:n:n], s.now[n:2*n:2*n], s.now[2*n:]
	return s, nil
}

// NewBranch returns the state of a branch of guesses, which follows that of its sequence; see Follow.
func NewBranch(spec *arch.Spec, budget *tiering.Budget) (*State, error) {
	s, err := newState(spec, budget, branchCopies)
	if s != nil {
		s.now, s.next = nil, s.now
	}
	return s, err
}

func newState(spec *arch.Spec, budget *tiering.Budget, copies int) (*State, error) {
	s := &State{spec: spec}
	s.rewind.part = s.rewindPart
	var floats int
	if s.places, floats = layout(spec); floats == 0 {
		return nil, nil
	}
	frame, err := tiering.Alloc(budget, tiering.KVHot, 4*floats*copies)
	if err != nil {
		return nil, err
	}
	s.frame = frame
	if s.now, err = tiering.View[float32](frame.Bytes(), floats*copies); err != nil {
		frame.Free()
		return nil, err
	}
	return s, nil
}

// Bytes returns the memory of the state of a sequence.
func Bytes(spec *arch.Spec) int64 { return stateBytes(spec, ownCopies) }

// BranchBytes returns the memory of the state of a branch.
func BranchBytes(spec *arch.Spec) int64 { return stateBytes(spec, branchCopies) }

func stateBytes(spec *arch.Spec, copies int) int64 {
	_, floats := layout(spec)
	return tiering.PageUp(4 * int64(floats*copies))
}

// Close frees the memory.
func (s *State) Close() {
	if s == nil {
		return
	}
	if s.frame != nil {
		s.frame.Free()
	}
	s.steps.free()
	*s = State{}
}

// Clear makes the state that before the first token.
func (s *State) Clear() {
	clear(s.now)
	s.markAt = 0
}

// Copy makes the state, and its mark, that of another sequence.
func (s *State) Copy(of *State) {
	copy(s.now, of.now)
	if s.markAt = of.markAt; s.markAt > 0 {
		copy(s.mark, of.mark)
	}
}

// CopyMark makes the mark of another sequence, which is behind so many tokens, the state and its mark.
func (s *State) CopyMark(of *State, tokens int) {
	copy(s.mark, of.mark)
	s.Restored(tokens)
}

// Follow makes a branch begin with the state of its sequence.
func (s *State) Follow(of *State) { s.now = of.now }

// Truncate goes back to at most n tokens: to the mark, or to the beginning. It returns how many tokens remain.
func (s *State) Truncate(n int) int {
	if s.markAt == 0 || s.markAt > n {
		s.Clear()
		return 0
	}
	copy(s.now, s.mark)
	return s.markAt
}

// Commit makes the state that behind the last pass.
func (s *State) Commit() { s.now, s.next = s.next, s.now }

// Mark keeps the state, which is that behind so many tokens, as the mark.
func (s *State) Mark(tokens int) {
	copy(s.mark, s.now)
	s.markAt = tokens
}

// MarkAt returns the number of tokens before the mark, 0 if there is none.
func (s *State) MarkAt() int { return s.markAt }

// Marked returns the mark's memory, to save or to restore it.
func (s *State) Marked() []byte { return s.frame.Bytes()[4*2*len(s.mark):][:4*len(s.mark)] }

// Unmark drops the mark, whose memory is about to change.
func (s *State) Unmark() { s.markAt = 0 }

// Restored makes the mark, whose memory was filled, the state behind so many tokens.
func (s *State) Restored(tokens int) {
	s.markAt = tokens
	copy(s.now, s.mark)
}

// Layer is the state of one layer before and behind a pass.
type Layer struct {
	ConvNow, ConvNext     []float32 // [taps-1, channels] inputs of the last tokens, oldest first
	MatrixNow, MatrixNext []float32 // [heads, blocks, key, columns]
	Steps                 []float32 // [tokens, step] where the pass records its inputs; nil: nowhere
}

// Layer returns the state of one layer for a pass of some tokens. A model whose convolutions have a single tap has layers
// of this kind and no state.
func (s *State) Layer(l, tokens int) (a Layer) {
	if s == nil {
		return a
	}
	p := &s.places[l]
	a.ConvNow, a.MatrixNow = p.split(s.now)
	a.ConvNext, a.MatrixNext = p.split(s.next)
	if tokens > 1 && tokens <= s.steps.rows {
		a.Steps = s.steps.layers[l]
	}
	return a
}

// split returns the parts of a layer's state in a copy.
func (p *place) split(of []float32) (conv, matrices []float32) {
	conv = of[p.at : p.at+p.conv()]
	return conv, of[p.at+p.conv():][:p.matrices]
}

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
