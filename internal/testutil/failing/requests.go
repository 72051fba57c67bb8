// Package failing makes each step of a piece of work fail, one after the other, and checks that
// the work ends cleanly: with the error of that step, or with the right result without it, and
// with nothing left behind.
package failing

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/tiering"
)

// Mode says which requests for memory fail.
type Mode string

// The modes of EachRequest.
const (
	Once   Mode = "once"   // request k alone
	Onward Mode = "onward" // request k and all later ones
)

// requests fails requests for memory.
type requests struct {
	mode Mode
	k    int

	mu      sync.Mutex
	seen    int
	failed  *tiering.Request // the first one that failed
	reserve bool             // a reservation failed
	mapping bool             // a mapping failed
	budgets map[*tiering.Budget]bool
}

func (r *requests) refuse(q tiering.Request) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.budgets[q.Budget] = true
	k := r.seen
	r.seen++
	if k < r.k || k > r.k && r.mode == Once {
		return false
	}
	if r.failed == nil {
		r.failed = &q
	}
	r.reserve, r.mapping = r.reserve || !q.Map, r.mapping || q.Map
	return true
}

// String describes the request that failed.
func (r *requests) String() string {
	what := "reservation"
	if r.failed.Map {
		what = "mapping"
	}
	return fmt.Sprintf("request %d (%s), a %s of %d bytes for %s", r.k, r.mode, what, r.failed.Bytes, r.failed.Purpose)
}

// EachRequest runs work with request k for memory failing, for k = 0, step, 2·step … until work
// makes no k-th request. Work opens, uses and closes a model, a cache or an engine. It returns nil
// if it has got the right result, also without the memory; otherwise its error must be
// tiering.ErrBudget, or syscall.ENOMEM if a mapping failed. After each run, no ledger may have a
// lease, and no file may be open and no goroutine may run that was not before.
// EachRequest returns the number of runs in which work failed and in which it did without.
func EachRequest(t *testing.T, mode Mode, step int, work func() error) (failed, without int) {
	t.Helper()
	for k := 0; ; k += step {
		r := &requests{mode: mode, k: k, budgets: map[*tiering.Budget]bool{}}
		files, goroutines := testutil.OpenFiles(), testutil.NoGoroutinesLeft(t)
		before := tiering.SetFaults(r.refuse)
		err := work()
		tiering.SetFaults(before)
		if r.failed == nil {
			if err != nil {
				t.Fatalf("without a failure: %v", err)
			}
			return failed, without
		}
		if problem := r.check(err); problem != nil {
			t.Errorf("%s: %v", r, problem)
		}
		if now := testutil.OpenFiles(); now > files {
			t.Errorf("%s: %d files are open, %d before", r, now, files)
		}
		goroutines()
		if t.Failed() {
			t.Fatalf("%s: work returned %v", r, err)
		}
		if err != nil {
			failed++
		} else {
			without++
		}
	}
}

// check checks the error of a run and the ledgers after it.
func (r *requests) check(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	clean := err == nil || r.reserve && errors.Is(err, tiering.ErrBudget) || r.mapping && errors.Is(err, syscall.ENOMEM)
	if !clean {
		return fmt.Errorf("the error is of another kind: %w", err)
	}
	for b := range r.budgets {
		if err := b.Check(); err != nil {
			return err
		}
	}
	return nil
}
