package llmrun

import (
	"context"
	"errors"
)

// endOf returns the error of a call whose context has ended: the context's cause, and its Err too if
// the cause is another error, so that programs can test for either. A session or engine that was
// closed during the call is no cancellation.
func endOf(ctx context.Context) error {
	cause, err := context.Cause(ctx), ctx.Err()
	if errors.Is(cause, err) || errors.Is(cause, ErrClosed) {
		return cause
	}
	return &cancelled{cause, err}
}

// cancelled is a context's cause. It wraps the context's Err too.
type cancelled struct{ cause, err error }

func (c *cancelled) Error() string   { return c.cause.Error() }
func (c *cancelled) Unwrap() []error { return []error{c.cause, c.err} }
