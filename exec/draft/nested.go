package draft

import (
	"context"
	"time"
)

// Nested is a [Drafter] that computes with a part of the target model: the high planes of its weights.
type Nested struct {
	compute Compute
	last    int32
	chain   Chain
	request *Request
	choose  func(logits []float32) (int32, bool, error)
}

// NestedName is the name of the drafter [Nested].
const NestedName = "nested"

// ModelName is the name in statistics of a drafter that is a model of its own.
const ModelName = "model"

// Compute appends up to n tokens that may follow last to dst; choose draws each from its logits, and reports whether another
// one is wanted.
type Compute func(ctx context.Context, dst []int32, last int32, n int, choose func(logits []float32) (id int32, more bool, err error)) ([]int32, error)

// What is assumed of guesses before any was verified. 4 of 8 bits and 3 of 4 agree more often.
const (
	nestedRight     = 0.9
	firstModelRight = 0.8
)

// NewNested returns a Nested that makes guesses with compute.
func NewNested(compute Compute) *Nested {
	n := &Nested{compute: compute, chain: newChain(nestedRight)}
	n.choose = n.chooseNext // made once, because making it allocates
	return n
}

// chooseNext draws a token and decides whether to go on.
func (n *Nested) chooseNext(logits []float32) (id int32, more bool, err error) {
	id, err = n.request.Choose(logits)
	return id, err == nil && n.chain.More(n.request), err
}

// Name implements [Drafter].
func (n *Nested) Name() string { return NestedName }

// Begin implements [Drafter].
func (n *Nested) Begin(_, _ []int32) error { return nil }

// Accepted implements [Drafter].
func (n *Nested) Accepted(id int32) { n.last = id }

// Draft implements [Drafter].
func (n *Nested) Draft(ctx context.Context, dst []int32, r *Request) ([]int32, error) {
	most := n.chain.Best(r, r.Most)
	if most == 0 {
		return dst, nil
	}
	start, had := time.Now(), len(dst)
	n.request = r
	dst, err := n.compute(ctx, dst, n.last, most, n.choose)
	if err == nil {
		n.chain.Took(len(dst)-had, time.Since(start))
		n.chain.Others(r, dst[had:])
	}
	return dst, err
}

// Expected implements [Expecter].
func (n *Nested) Expected(r *Request) float64 { return n.chain.Expected(r, r.Most) }

// BranchKept implements [Brancher].
func (n *Nested) BranchKept(branch, more int) { n.chain.BranchKept(branch, more) }

// Verified implements [Drafter].
func (n *Nested) Verified(guesses, right int) { n.chain.Verified(guesses, right) }

// Close implements [Drafter].
func (n *Nested) Close() {}
