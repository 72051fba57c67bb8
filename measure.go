package llmrun

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/text/token"
)

// Logits prefills ids and returns the logits after each position in at, in the order of at.
// Each row has one logit for each token of the vocabulary. Positions count from 0; nil means
// the last position only. Within the budget of Options.Memory.RAM, Logits returns ErrBudget before
// it computes more rows than memory holds.
func (e *Engine) Logits(ctx context.Context, ids []int32, at []int) ([][]float32, error) {
	if len(ids) == 0 {
		return nil, fmt.Errorf("%w: the list of token ids is empty", ErrOptions)
	}
	if at == nil {
		at = []int{len(ids) - 1}
	}
	for _, pos := range at {
		if pos < 0 || pos >= len(ids) {
			return nil, fmt.Errorf("%w: the position is %d; it must be between 0 and %d", ErrOptions, pos, len(ids)-1)
		}
	}
	rows := make(map[int][]float32, len(at)) // nil until it is computed
	for _, pos := range at {
		rows[pos] = nil
	}
	if err := e.reserveLogits(len(rows)); err != nil {
		return nil, err
	}
	err := e.scratchSession(ctx, func(ctx context.Context, s *Session) error {
		return s.extend(ctx, ids, &exec.ExtendOptions{
			Want: func(pos int) bool { _, ok := rows[pos]; return ok },
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

// reserveLogits reserves the heap for a number of rows of logits, and releases weights if the
// budget has no room. It is reserved until the next call, or until the engine is closed.
func (e *Engine) reserveLogits(rows int) error {
	e.logits.Lock()
	defer e.logits.Unlock()
	e.logits.room.release()
	e.logits.room = nil
	bytes := logitsHeap(rows, e.info.Vocab)
	if bytes == 0 {
		return nil
	}
	room := &promptRoom{engine: e}
	if err := room.reserveFor(fmt.Sprintf("the logits of %d positions take", rows), bytes); err != nil {
		return err
	}
	e.logits.room = room
	return nil
}

// logitsHeap returns the heap to reserve for a number of rows of logits.
func logitsHeap(rows, vocab int) int64 {
	bytes := int64(rows) * int64(vocab) * 4
	if bytes <= promptFree*promptCost {
		return 0 // it is part of heapBytes
	}
	return bytes
}

// EncodeText returns the token ids of a text, as [Tokenizer.Encode] does. Within the budget of
// Options.Memory.RAM it returns ErrBudget before the ids take more memory than is left.
func (e *Engine) EncodeText(text string, o EncodeOptions) ([]int32, error) {
	if e.tok == nil {
		return nil, ErrNoTokenizer
	}
	room, err := e.reservePrompt(text)
	defer room.release()
	if err != nil {
		return nil, err
	}
	return e.tok.t.Encode(text, room.encodeOptions(token.EncodeOptions{AllowSpecial: o.ParseSpecial, AddSpecial: o.Special}))
}

// defaultWindow is the usual window of published perplexities, in tokens.
const defaultWindow = 2048

// PerplexityOptions configure Perplexity.
type PerplexityOptions struct {
	Context  int                   // tokens of a window; 0 = 2048, or the session's limit if that is less
	Progress func(done, total int) // called with the tokens read; may be nil
}

// Perplexity reports how well a model predicts a text.
type Perplexity struct {
	Tokens  int     `json:"tokens"`   // tokens of the text
	Scored  int     `json:"scored"`   // tokens that were predicted
	MeanNLL float64 `json:"mean_nll"` // mean negative log-likelihood per token, in nats
	PPL     float64 `json:"ppl"`      // exp(MeanNLL)
}

// Perplexity measures how well the model predicts a text of token ids. It cuts the text into
// windows that do not overlap, and predicts every token of a window except the first from the
// tokens before it.
func (e *Engine) Perplexity(ctx context.Context, ids []int32, o PerplexityOptions) (Perplexity, error) {
	window := o.Context
	if window == 0 {
		window = min(defaultWindow, e.limit)
	}
	if window < 2 || window > e.limit {
		return Perplexity{}, fmt.Errorf("%w: Context is %d; a window must have between 2 and %d tokens", ErrOptions, window, e.limit)
	}
	if len(ids) < 2 {
		return Perplexity{}, fmt.Errorf("%w: a perplexity needs at least 2 tokens, not %d", ErrOptions, len(ids))
	}
	p := Perplexity{Tokens: len(ids)}
	var sum float64
	err := e.scratchSession(ctx, func(ctx context.Context, s *Session) error {
		for at := 0; at < len(ids); at += window {
			part := ids[at:min(at+window, len(ids))]
			progress := func(done, _ int) {
				if o.Progress != nil {
					o.Progress(at+done, len(ids))
				}
			}
			nll, err := s.scoreWindow(ctx, part, progress)
			if err != nil {
				return fmt.Errorf("window at token %d: %w", at, err)
			}
			sum += nll
			p.Scored += len(part) - 1
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

// scoreWindow resets the sequence and returns the sum of the negative log-likelihoods of ids,
// except the first.
func (s *Session) scoreWindow(ctx context.Context, ids []int32, progress func(done, total int)) (sum float64, err error) {
	s.seq.Truncate(0)
	err = s.extend(ctx, ids, &exec.ExtendOptions{
		Want: func(pos int) bool { return pos+1 < len(ids) },
		Each: func(pos int, logits []float32) error {
			nll, err := negLogLikelihood(logits, ids[pos+1])
			sum += nll
			return err
		},
		Progress: progress,
	})
	return sum, err
}

// negLogLikelihood returns the negative natural logarithm of a token's probability.
func negLogLikelihood(logits []float32 /* [vocab] */, id int32) (float64, error) {
	top := slices.Max(logits)
	var sum float64
	for _, v := range logits {
		sum += math.Exp(float64(v) - float64(top))
	}
	nll := math.Log(sum) + float64(top) - float64(logits[id])
	if math.IsNaN(nll) || math.IsInf(nll, 0) {
		return 0, fmt.Errorf("the model's logits: %w", ErrNonFinite)
	}
	return nll, nil
}

// scratchSession calls fn with a temporary session.
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
	return errors.Join(err, s.Close())
}
