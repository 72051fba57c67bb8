package llmrun

import (
	"context"
	"math"
	"time"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/draft"
)

// modelDrafter is a draft.Drafter that asks a small model. Its sequence follows the session's: what the
// target rejected is removed before the next guesses.
type modelDrafter struct {
	model *exec.Model
	seq   *exec.Sequence
	text  []int32 // the session's tokens, of which seq may have processed the first ones
	valid int     // leading tokens of seq that are those of text
	chain draft.Chain

	options exec.ExtendOptions
	request *draft.Request
	next    int32     // chosen behind the last token
	logits  []float32 // [target's vocabulary] if the draft model's has another size; otherwise nil
}

// newModelDrafter returns the drafter of a session.
func (d *draftModel) newModelDrafter(vocab int) (*modelDrafter, error) {
	seq, err := d.model.NewSequence(d.limit)
	if err != nil {
		return nil, err
	}
	m := &modelDrafter{model: d.model, seq: seq, text: make([]int32, 0, d.limit+1), chain: draft.NewModelChain()}
	if d.model.Spec.Vocab != vocab {
		m.logits = make([]float32, vocab)
	}
	m.options.Each = m.choose
	return m, nil
}

// Name implements draft.Drafter.
func (m *modelDrafter) Name() string { return draft.ModelName }

// Begin implements draft.Drafter.
func (m *modelDrafter) Begin(_, ids []int32) error {
	m.valid = min(m.valid, draft.CommonPrefix(m.text, ids))
	m.text = append(m.text[:0], ids[max(0, len(ids)-cap(m.text)):]...)
	if len(m.text) < len(ids) {
		m.valid = 0
	}
	return nil
}

// Accepted implements draft.Drafter. A text that the draft model's context does not hold loses its older half.
func (m *modelDrafter) Accepted(id int32) {
	if len(m.text) == cap(m.text) {
		m.text = m.text[:copy(m.text, m.text[len(m.text)/2:])]
		m.valid = 0
	}
	m.text = append(m.text, id)
}

// Draft implements draft.Drafter.
func (m *modelDrafter) Draft(ctx context.Context, dst []int32, r *draft.Request) ([]int32, error) {
	n, had := m.chain.Best(r, m.most(r)), len(dst)
	if n <= 0 {
		return dst, nil
	}
	start := time.Now()
	m.request = r
	defer m.seq.Rest()
	for m.valid < min(m.seq.Len(), len(m.text)-1) && m.seq.IDs()[m.valid] == m.text[m.valid] {
		m.valid++
	}
	m.valid = m.seq.Truncate(m.valid)
	missing := m.text[m.valid:]
	for range n {
		if err := m.model.Extend(ctx, m.seq, missing, &m.options); err != nil {
			return dst, err
		}
		dst = append(dst, m.next)
		missing = dst[len(dst)-1:]
	}
	m.chain.Took(n, time.Since(start))
	m.chain.Others(r, dst[had:])
	return dst, nil
}

// most returns how many guesses the context of the draft model has room for.
func (m *modelDrafter) most(r *draft.Request) int { return min(r.Most, m.seq.Limit()-len(m.text)+1) }

// Expected implements draft.Expecter.
func (m *modelDrafter) Expected(r *draft.Request) float64 {
	return m.chain.Expected(r, max(0, m.most(r)))
}

// BranchKept implements draft.Brancher.
func (m *modelDrafter) BranchKept(branch, more int) { m.chain.BranchKept(branch, more) }

// choose is called with the logits behind the last token.
func (m *modelDrafter) choose(_ int, logits []float32) (err error) {
	if m.logits != nil {
		for i := copy(m.logits, logits); i < len(m.logits); i++ {
			m.logits[i] = float32(math.Inf(-1))
		}
		logits = m.logits
	}
	m.next, err = m.request.Choose(logits)
	return err
}

// Verified implements draft.Drafter.
func (m *modelDrafter) Verified(guesses, right int) { m.chain.Verified(guesses, right) }

// Close implements draft.Drafter.
func (m *modelDrafter) Close() { m.seq.Close() }
