package failing

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/vfs"
)

// errInjected is the error of the operation that fails.
var errInjected = errors.New("injected failure")

// Outcome is what a piece of work has reported.
type Outcome struct {
	Err     error    // that it returned
	Notices []string // messages for the user, about failures that did not end the work
}

// operation fails operation k on files.
type operation struct {
	k int

	mu     sync.Mutex
	seen   int
	failed *vfs.Op
}

func (o *operation) fault(op vfs.Op) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := o.seen
	o.seen++
	if k != o.k {
		return nil
	}
	o.failed = &op
	return errInjected
}

// String describes the operation that failed.
func (o *operation) String() string {
	return fmt.Sprintf("operation %d, %s %s at %d", o.k, o.failed.Kind, o.failed.Path, o.failed.Offset)
}

// EachOperation runs work with operation k on files failing, for k = 0, stride, 2·stride … until
// work makes no k-th operation. begin prepares a run and returns the work, which reports what it
// could do in spite of the failure as done without an error. The failure must then be in one
// notice, unless silent accepts that the work goes on without a word; otherwise the returned
// error must name it once, with the path and the offset, whether or not a notice did. No file may be open and no goroutine may
// run after the work that was not before. EachOperation returns how often the failure was
// returned, was reported in a notice, and was silent.
func EachOperation(t *testing.T, stride int, begin func() func() Outcome, silent func(vfs.Op) bool) (returned, noticed, without int) {
	t.Helper()
	for k := 0; ; k += stride {
		work := begin()
		o := &operation{k: k}
		files, goroutines := testutil.OpenFiles(), testutil.NoGoroutinesLeft(t)
		vfs.SetFaults(o.fault)
		out := work()
		vfs.SetFaults(nil)
		if o.failed == nil {
			if out.Err != nil || len(out.Notices) > 0 {
				t.Fatalf("without a failure: %v, notices %q", out.Err, out.Notices)
			}
			return returned, noticed, without
		}
		if problem := o.check(out, silent); problem != nil {
			t.Errorf("%s: %v", o, problem)
		}
		goroutines()
		if now := testutil.OpenFiles(); now > files {
			t.Errorf("%s: %d files are open, %d before", o, now, files)
		}
		switch {
		case out.Err != nil:
			returned++
		case len(out.Notices) > 0:
			noticed++
		default:
			without++
		}
	}
}

// check checks that the failure is reported once, with its place.
func (o *operation) check(out Outcome, silent func(vfs.Op) bool) error {
	text := strings.Join(out.Notices, "\n")
	if strings.Count(text, errInjected.Error()) > 1 {
		return fmt.Errorf("noticed more than once: %q", out.Notices)
	}
	if out.Err != nil {
		if !errors.Is(out.Err, errInjected) {
			return fmt.Errorf("the error is of another kind: %w", out.Err)
		}
		if err := o.checkPlace(out.Err); err != nil {
			return err
		}
		text = out.Err.Error()
	}
	switch n := strings.Count(text, errInjected.Error()); {
	case n == 0 && silent(*o.failed):
		return nil
	case n != 1:
		return fmt.Errorf("reported %d times: error %w, notices %q", n, out.Err, out.Notices)
	case !strings.Contains(text, o.failed.Path):
		return fmt.Errorf("the report does not name the path: %s", text)
	}
	return nil
}

// checkPlace checks the path and offset in an error.
func (o *operation) checkPlace(err error) error {
	var where *vfs.IOError
	if !errors.As(err, &where) {
		return fmt.Errorf("the error names no place: %w", err)
	}
	if where.Path != o.failed.Path || where.Off != o.failed.Offset {
		return fmt.Errorf("the error names %s at %d: %w", where.Path, where.Off, err)
	}
	return nil
}
