package split

import (
	"context"
	"slices"
	"time"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/hetero/profiles"
)

const (
	// trialPasses is how many prefill chunks are timed, and trialTokens how many
	// tokens after one, each after one warm-up. The median counts: the minimum
	// would hide the time that each side waits for the other.
	trialPasses = 5
	trialTokens = 15
	// trialMaxTime bounds the time of one kind of passes; at least one is timed.
	trialMaxTime = 5 * time.Second
)

// timing selects the passes to time: those that the device takes part in.
type timing struct {
	prompts, tokens bool
	chunk           int // tokens per prefill chunk
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
		chunk[i] = int32(i * 7919 % m.Spec.Vocab) // varied, so that all experts are used
	}
	reader := exec.ExtendOptions{Each: func(int, []float32) error { return nil }} // requests logits
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

// median returns the median time of several passes.
func median(passes int, pass func() error) (time.Duration, error) {
	var took []time.Duration
	begin := time.Now()
	for n := range 1 + passes { // the first is the warm-up
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
