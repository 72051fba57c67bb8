package llmrun

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/llmrun/llmrun/exec"
)

// Logits reads ids and returns the model's scores of every possible next token
// behind the asked positions; at nil asks for the last one. Rows are in the
// order of at.
func (e *Engine) Logits(ctx context.Context, ids []int32, at []int) ([][]float32, error) {
	if len(ids) == 0 {
		return nil, fmt.Errorf("%w: there are no token ids", ErrOptions)
	}
	if at == nil {
		at = []int{len(ids) - 1}
	}
	for _, pos := range at {
		if pos < 0 || pos >= len(ids) {
			return nil, fmt.Errorf("%w: position %d of %d tokens", ErrOptions, pos, len(ids))
		}
	}
	rows := map[int][]float32{}
	err := e.scratchSession(ctx, func(ctx context.Context, s *Session) error {
		return e.model.Extend(ctx, s.seq, ids, &exec.Reader{
			Want: func(pos int) bool { return slices.Contains(at, pos) },
			Each: func(pos int, logits []float32) error {
				rows[pos] = slices.Clone(logits)
				return nil
			},
		})
	})
	if err != nil {
		return nil, err
	}
	out := make([][]float32, len(at))
	for i, pos := range at {
		out[i] = rows[pos]
	}
	return out, nil
}

// PerplexityOptions are the choices for Perplexity.
type PerplexityOptions struct {
	Context  int                   // tokens of a window; 0 = 2048, or the model's own limit
	Progress func(done, total int) // tokens read; may be nil
}

// Perplexity is how well a model predicts a text.
type Perplexity struct {
	Tokens  int     `json:"tokens"`   // of the text
	Scored  int     `json:"scored"`   // of those, how many were predicted
	MeanNLL float64 `json:"mean_nll"` // mean negative log-likelihood of a token, in nats
	PPL     float64 `json:"ppl"`      // e to that power
}

// Perplexity measures how well the model predicts a text of token ids. The
// text is cut into windows that do not overlap; every token but a window's
// first is predicted from those before it.
func (e *Engine) Perplexity(ctx context.Context, ids []int32, o PerplexityOptions) (Perplexity, error) {
	window := o.Context
	if window == 0 {
		window = min(2048, e.model.Spec.Context)
	}
	if window < 2 || window > e.model.Spec.Context {
		return Perplexity{}, fmt.Errorf("%w: a window of %d tokens; it must lie between 2 and %d", ErrOptions, window, e.model.Spec.Context)
	}
	if len(ids) < 2 {
		return Perplexity{}, fmt.Errorf("%w: %d tokens; at least 2 are needed", ErrOptions, len(ids))
	}
	p := Perplexity{Tokens: len(ids)}
	var sum float64
	err := e.scratchSession(ctx, func(ctx context.Context, s *Session) error {
		for at := 0; at < len(ids); at += window {
			part := ids[at:min(at+window, len(ids))]
			s.seq.Truncate(0)
			err := e.model.Extend(ctx, s.seq, part, &exec.Reader{
				Want: func(pos int) bool { return pos+1 < len(part) },
				Each: func(pos int, logits []float32) error {
					nll, err := surprise(logits, part[pos+1])
					sum += nll
					p.Scored++
					return err
				},
				Progress: func(done, _ int) {
					if o.Progress != nil {
						o.Progress(at+done, len(ids))
					}
				},
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return Perplexity{}, err
	}
	p.MeanNLL = sum / float64(p.Scored)
	p.PPL = math.Exp(p.MeanNLL)
	return p, nil
}

// surprise is the negative logarithm of the probability that logits give to a
// token.
func surprise(logits []float32, id int32) (float64, error) {
	top := slices.Max(logits)
	var sum float64
	for _, v := range logits {
		sum += math.Exp(float64(v - top))
	}
	nll := math.Log(sum) + float64(top) - float64(logits[id])
	if math.IsNaN(nll) || math.IsInf(nll, 0) {
		return 0, fmt.Errorf("the model's logits: %w", ErrNonFinite)
	}
	return nll, nil
}

// scratchSession runs fn with a session of its own.
func (e *Engine) scratchSession(ctx context.Context, fn func(context.Context, *Session) error) error {
	s, err := e.NewSession()
	if err != nil {
		return err
	}
	ctx, err = s.begin(ctx)
	if err != nil {
		return err
	}
	err = fn(ctx, s)
	s.end()
	if closeErr := s.Close(); err == nil {
		err = closeErr
	}
	return err
}
