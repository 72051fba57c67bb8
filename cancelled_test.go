package llmrun_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// TestCancelledCallsSaySo cancels calls with a cause of the program's own: each error wraps both the cause and
// context.Canceled where the call is a session's, and context.Canceled in any case.
func TestCancelledCallsSaySo(t *testing.T) {
	t.Parallel()
	e := open(t, wide(t), llmrun.Options{Threads: 1, Context: 256})
	s := newSession(t, e)
	gone := errors.New("the user has gone")
	cancelled := func() context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		return ctx
	}
	ids := someIDs(e, 100)
	for name, call := range map[string]func(ctx context.Context) error{
		"prefill": func(ctx context.Context) error { return collect(s.GenerateIDs(ctx, ids, limit(4))).err },
		"decode": func(context.Context) error {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			o := limit(50)
			o.IgnoreEOS = true
			var err error
			for _, failed := range s.GenerateIDs(ctx, ids, o) {
				cancel(gone)
				err = failed
			}
			return err
		},
		"candidates": func(ctx context.Context) error {
			var err error
			for _, failed := range s.Candidates(ctx, llmrun.Prompt{IDs: ids}, llmrun.CandidateOptions{GenerateOptions: limit(4), N: 2}) {
				err = failed
			}
			return err
		},
		"logits": func(ctx context.Context) error { _, err := e.Logits(ctx, ids, nil); return err },
		"perplexity": func(ctx context.Context) error {
			_, err := e.Perplexity(ctx, ids, llmrun.PerplexityOptions{})
			return err
		},
		"trim": func(ctx context.Context) error { _, err := e.Trim(ctx, llmrun.TrimCritical); return err },
		"open": func(ctx context.Context) error {
			_, err := llmrun.OpenContext(ctx, wide(t), llmrun.Options{Threads: 1, Context: 256})
			return err
		},
		"import": func(ctx context.Context) error {
			_, err := llmrun.Import(ctx, wide(t), t.TempDir()+"/m.pack", llmrun.ImportOptions{})
			return err
		},
	} {
		err := call(cancelled())
		require.ErrorIs(t, err, context.Canceled, name)
		if name != "open" && name != "import" {
			require.ErrorIs(t, err, gone, name)
			require.ErrorContains(t, err, gone.Error(), name)
		}
	}
	require.NoError(t, s.Close())
	require.ErrorIs(t, collect(s.GenerateIDs(cancelled(), ids, limit(4))).err, llmrun.ErrClosed)
}
