// Package ended says why a call ended early, and waits so that it can.
package ended

import (
	"context"
	"errors"
	"time"
)

// By returns the error of a call whose context has ended: the context's cause, and its Err too if the cause is
// another error, so that programs can test for either.
func By(ctx context.Context) error {
	cause, err := context.Cause(ctx), ctx.Err()
	if errors.Is(cause, err) {
		return cause
	}
	return &cancelled{cause, err}
}

// Say replaces *err by [By] if the call has failed because ctx ended. Calls defer it whose parts return only one of both.
func Say(ctx context.Context, err *error) {
	if *err == nil || ctx.Err() == nil {
		return
	}
	ofErr, ofCause := errors.Is(*err, ctx.Err()), errors.Is(*err, context.Cause(ctx))
	if ofErr != ofCause {
		*err = By(ctx)
	}
}

// Sleep waits, or returns the cause of a context that ends before.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// cancelled is a context's cause. It wraps the context's Err too.
type cancelled struct{ cause, err error }

func (c *cancelled) Error() string   { return c.cause.Error() }
func (c *cancelled) Unwrap() []error { return []error{c.cause, c.err} }
