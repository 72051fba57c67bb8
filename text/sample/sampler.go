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
	// ErrNonFinite reports logits that are NaN or +Inf. The weights or the computation
	// are broken.
	ErrNonFinite = errors.New("the weights may be damaged: compare the SHA-256 of the model's files with those of their publisher")
	// ErrAllMasked reports that every token is forbidden.
	ErrAllMasked = errors.New("no token is allowed")
)

// Sampler selects the tokens of one generation. It is not safe for concurrent use.
// After the first token it does not allocate.
type Sampler struct {
	params         Params
	vocab          int
	seed           uint64
	position       uint64 // tokens that were accepted
	history        history
	bias           []tokenBias // ascending by id
	allowed        []uint64    // [vocab/64] see Allow; nil: all tokens
	adjustedLogits []float32   // [vocab] logits after penalties, bias and mask; nil until first used
	candidates     []candidate // buffer that every call of Sample reuses
	branch         branch
}

// branch is what Return restores.
type branch struct {
	position uint64
	history  history
}

// candidate is a token that the current step may still select.
type candidate struct {
	key   float64 // sort key or weight in the current step
	logit float32
	id    int32
}

// tokenBias is an entry of Params.LogitBias.
type tokenBias struct {
	id   int32
	bias float32
}

// New returns a sampler for a vocabulary of vocab tokens. The error is a *ParamError.
func New(p Params, vocab int) (*Sampler, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	s := &Sampler{params: p, vocab: vocab}
	for id, bias := range p.LogitBias {
		if id < 0 || int(id) >= vocab {
			return nil, &ParamError{"logit_bias", fmt.Sprintf("has an entry for token %d; the vocabulary has %d tokens", id, vocab)}
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
	return s, nil
}

// Seed returns the seed in use: Params.Seed, or the random seed that New selected.
func (s *Sampler) Seed() uint64 { return s.seed }

// Accept adds a token of the prompt or of the answer to the history for the penalties, and moves to
// the next position, which has other random numbers. Ids outside the vocabulary do not get into the history.
func (s *Sampler) Accept(id int32) {
	s.position++
	if id >= 0 && int(id) < s.vocab {
		s.history.add(id)
	}
}

// Allow makes Sample and Margin choose among the tokens whose bits are set, until the next call; nil allows all tokens. The sampler
// does not modify allowed.
func (s *Sampler) Allow(allowed []uint64 /* [vocab/64] */) { s.allowed = allowed }

// Branch remembers the state of the sampler: Return restores it, whatever Sample and Accept were called in
// between. A branch of a branch is not possible.
func (s *Sampler) Branch() {
	s.branch.position = s.position
	s.branch.history.copyFrom(&s.history)
}

// Return restores the state at the last Branch.
func (s *Sampler) Return() {
	s.position = s.branch.position
	s.history.copyFrom(&s.branch.history)
}

// Sample returns the next token. logits has one entry per id; -Inf marks a forbidden
// token. Sample does not modify logits. It does not call Accept, because the caller may
// discard the token; until then it draws with the same random numbers.
func (s *Sampler) Sample(logits []float32 /* [vocab] */) (int32, error) {
	if len(logits) != s.vocab {
		return 0, fmt.Errorf("sampling: got %d logits for a vocabulary of %d tokens", len(logits), s.vocab)
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
	if !s.params.filters() {
		return s.drawAll(logits, best), nil
	}
	return s.draw(s.filter(logits)), nil
}

// filter returns the tokens that draw selects from, at least one, in no particular order.
func (s *Sampler) filter(logits []float32 /* [vocab] */) []candidate {
	candidates := s.topK(logits)
	candidates = typical(candidates, s.params.TypicalP)
	candidates = topP(candidates, s.params.TopP)
	return minP(candidates, s.params.MinP)
}

// argmax returns the id of the greatest logit. Of equal logits the lowest id wins. It
// returns an error if a logit is not finite or all tokens are masked.
func argmax(logits []float32 /* [vocab] */) (int32, error) {
	// The common case, which the vector kernels handle much faster.
	if len(logits) > 0 && quant.AllFinite(logits) {
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
