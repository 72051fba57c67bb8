package llmrun

import (
	"context"
	"errors"

	"github.com/llmrun/llmrun/internal/ended"
)

// endOf returns the error of a call whose context has ended, that of [ended.By]. A session or engine that was
// closed during the call is no cancellation.
func endOf(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, ErrClosed) {
		return cause
	}
	return ended.By(ctx)
}
