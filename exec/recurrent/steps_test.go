package recurrent

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/tiering"
)

// together runs all parts at the same time.
type together struct{}

func (together) Run(parts int, fn func(part, worker int)) {
	var all sync.WaitGroup
	for part := range parts {
		all.Go(func() { fn(part, part) })
	}
	all.Wait()
}

// TestRewindGivesTheStateOfWhatStays advances a sequence over tokens of which some stay, and compares its state with
// that of a pass over these alone.
func TestRewindGivesTheStateOfWhatStays(t *testing.T) {
	r := arch.Recurrence{Heads: 3, Groups: 1, Key: 8, Value: 70, Taps: 3, Delta: true}
	spec := &arch.Spec{Dim: 16, ConvTaps: 3, Recurrence: r, Layers: make([]arch.LayerSpec, 3)}
	spec.Layers[0].Mixer, spec.Layers[2].Mixer = arch.Recurrent, arch.ShortConv
	const tokens = 4
	budget := tiering.New(64 << 20)
	in, start := randomLayer(&r, tokens)
	state := func() *State {
		s, err := New(spec, budget)
		require.NoError(t, err)
		t.Cleanup(s.Close)
		require.NoError(t, s.AllowSteps(tokens, budget))
		a := s.Layer(0, 0)
		copy(a.MatrixNow, start)
		return s
	}
	for keep := range tokens {
		guessed, want := state(), state()
		passOf(guessed, &in, tokens)
		guessed.Rewind(guessed, keep, together{})
		passOf(want, &in, keep)
		require.Equal(t, want.next, guessed.next, "of %d tokens, %d stay", tokens, keep)
	}
}

// passOf is a pass over some tokens, which the state records.
func passOf(s *State, in *Inputs, tokens int) {
	r := &s.spec.Recurrence
	for _, l := range []int{0, 2} {
		a, p := s.Layer(l, 0), &s.places[l]
		rows := Rows{in.Channels.Data, r.Channels()}
		keepInputs(a.ConvNext, a.ConvNow, rows, p.channels, 0, p.channels, tokens)
		Record(s.steps.layers[l], p.step, 0, rows, 0, p.channels, tokens)
	}
	a := s.Layer(0, 0)
	in.Record(r, s.steps.layers[0], tokens)
	for part := range Parts(r) {
		Advance(r, a.MatrixNext, a.MatrixNow, part, in, tokens)
	}
}
