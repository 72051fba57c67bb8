package split

import (
	"context"
	"slices"
	"time"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/hetero/profiles"
)

const (
	// trialPasses is how many chunks of a prompt are timed, and trialTokens how many
	// tokens behind one, each after one for nothing. The median counts: the shortest
	// time would not tell what it costs that each side waits for the other.
	trialPasses = 5
	trialTokens = 15
	// trialMaxTime is how long passes of a kind are timed; one is in any case.
	trialMaxTime = 5 * time.Second
)

// timing says which passes are timed: those that a device has a part in.
type timing struct {
	prompts, tokens bool
	chunk           int // tokens of a prompt that pass together
}

// run times passes of a model.
func (t timing) run(ctx context.Context, m *exec.Model) (took profiles.PassTimes, err error) {
	s, err := m.NewSequence(0)
	if err != nil {
		return took, err
	}
	defer s.Close()
	chunk := make([]int32, min(t.chunk, s.Limit()))
	for i := range chunk {
		chunk[i] = int32(i * 7919 % m.Spec.Vocab) // any, but not one alone, so that all experts are asked
	}
	reader := exec.Reader{Each: func(int, []float32) error { return nil }} // so that there are logits
	read := func(ids []int32, behind bool) error {
		if !behind || s.Len() == s.Limit() {
			s.Truncate(0)
		}
		return m.Extend(ctx, s, ids, &reader)
	}
	if t.prompts {
		took.Prompt, err = median(trialPasses, func() error { return read(chunk, false) })
	}
	if t.tokens && err == nil {
		took.Token, err = median(trialTokens, func() error { return read(chunk[:1], true) })
	}
	return took, err
}

// median returns how long a pass takes, in the middle of so many.
func median(passes int, pass func() error) (time.Duration, error) {
	var took []time.Duration
	begin := time.Now()
	for n := range 1 + passes { // the first is to warm up
		if n > 1 && time.Since(begin) > trialMaxTime {
			break
		}
		start := time.Now()
		if err := pass(); err != nil {
			return 0, err
		}
		if n > 0 {
			took = append(took, time.Since(start))
		}
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
