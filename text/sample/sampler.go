package sample

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/llmrun/llmrun/quant"
)

// Errors of Sample.
var (
	// ErrNonFinite means that the model's logits hold NaN or +Inf: the weights or
	// the arithmetic are broken, and any token would be arbitrary.
	ErrNonFinite = errors.New("logits are not finite")
	// ErrAllMasked means that every token is forbidden.
	ErrAllMasked = errors.New("no token is allowed")
)

// Sampler chooses the tokens of one generation. It is used by one goroutine.
// After the first token it allocates nothing.
type Sampler struct {
	params         Params
	vocab          int
	seed           uint64
	random         *rand.PCG
	history        history
	bias           []tokenBias // ascending by id
	adjustedLogits []float32   // [vocab] logits after penalties and bias; nil when there are none
	candidates     []candidate // reused from token to token
}

// candidate is a token that may be drawn.
type candidate struct {
	key   float64 // what the present step orders by or sums up
	logit float32
	id    int32
}

type tokenBias struct {
	id   int32
	bias float32
}

// New returns a sampler for logits of vocab tokens. The error is a *ParamError.
func New(p Params, vocab int) (*Sampler, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	s := &Sampler{params: p, vocab: vocab}
	for id, bias := range p.LogitBias {
		if id < 0 || int(id) >= vocab {
			return nil, &ParamError{"logit_bias", fmt.Sprintf("names token %d; the vocabulary has %d", id, vocab)}
		}
		s.bias = append(s.bias, tokenBias{id, bias})
	}
	slices.SortFunc(s.bias, func(a, b tokenBias) int { return int(a.id) - int(b.id) })
	if p.hasPenalties() {
		s.history.limit = p.RepeatLastN
		if s.history.limit == 0 {
			s.history.limit = defaultRepeatLastN
		}
	}
	if p.Seed != nil {
		s.seed = *p.Seed
	} else {
		s.seed = rand.Uint64()
	}
	// The second word only selects the sequence; it is part of what a seed means
	// and must never change.
	s.random = rand.NewPCG(s.seed, 0x6c6c6d72756e)
	return s, nil
}

// Seed returns the seed in use: the given one, or the one that was chosen.
func (s *Sampler) Seed() uint64 { return s.seed }

// Accept enters a token of the prompt or of the answer into the history that
// the penalties look at. Ids outside the vocabulary are ignored.
func (s *Sampler) Accept(id int32) {
	if id >= 0 && int(id) < s.vocab {
		s.history.add(id)
	}
}

// Sample returns the next token. logits are those of the model, in the order of
// ids, and are not changed; -Inf marks a token that is not allowed. Sample does
// not call Accept, because the caller may still decide otherwise.
func (s *Sampler) Sample(logits []float32 /* [vocab] */) (int32, error) {
	if len(logits) != s.vocab {
		return 0, fmt.Errorf("sampling: there are %d logits for a vocabulary of %d", len(logits), s.vocab)
	}
	best, err := argmax(logits)
	if err != nil {
		return 0, err
	}
	if s.hasAdjustments() {
		logits = s.adjustLogits(logits)
		if best, err = argmax(logits); err != nil {
			return 0, err
		}
	}
	if s.params.Temperature == 0 {
		return best, nil
	}
	return s.draw(s.filter(logits)), nil
}

// filter returns the tokens that may be drawn, at least one, by ascending id. So
// what a seed means does not depend on how the filters find them.
func (s *Sampler) filter(logits []float32 /* [vocab] */) []candidate {
	candidates := s.topK(logits)
	candidates = typical(candidates, s.params.TypicalP)
	candidates = topP(candidates, s.params.TopP)
	candidates = minP(candidates, s.params.MinP)
	slices.SortFunc(candidates, func(a, b candidate) int { return int(a.id) - int(b.id) })
	return candidates
}

// argmax returns the id of the greatest logit, the lowest one among equals, and
// checks all logits.
func argmax(logits []float32 /* [vocab] */) (int32, error) {
	if len(logits) > 0 && quant.AllFinite(logits) { // mostly, and much faster
		return int32(quant.ArgMax(logits)), nil
	}
	best, top := -1, float32(math.Inf(-1))
	for id, l := range logits {
		if !(l <= math.MaxFloat32) {
			return 0, fmt.Errorf("sampling: the logit of token %d is %v: %w", id, l, ErrNonFinite)
		}
		if l > top {
			best, top = id, l
		}
	}
	if best < 0 {
		return 0, fmt.Errorf("sampling: %w: all %d logits are -Inf", ErrAllMasked, len(logits))
	}
	return int32(best), nil
}

// draw picks one of the candidates, which stand by ascending id, with
// probability proportional to e^(logit/temperature).
func (s *Sampler) draw(candidates []candidate) int32 {
	top, total := maxLogit(candidates), 0.0
	for i := range candidates {
		c := &candidates[i]
		c.key = exp((float64(c.logit) - top) / float64(s.params.Temperature))
		total += c.key
	}
	// 53 random bits make a number in [0, 1).
	point := float64(s.random.Uint64()>>11) * 0x1p-53 * total
	chosen, reached := candidates[0].id, 0.0
	for _, c := range candidates {
		if c.key == 0 {
			continue
		}
		// Rounding may leave point at the very end: then the last one that has
		// any probability stays chosen.
		chosen = c.id
		if reached += c.key; reached > point {
			break
		}
	}
	return chosen
}
