package threadpool

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Task is work in numbered parts. Part may be called from several goroutines at
// once, each with its own worker number. It must not call Run of the same Pool.
type Task interface {
	// Part processes one part. worker is below Pool.Count, and overlapping calls have
	// different workers: use it as an index into per-thread scratch memory.
	Part(part, worker int)
}

// taskFunc adapts a function to Task. A func value is one pointer, so the
// conversion to the interface does not allocate.
type taskFunc func(part, worker int)

func (f taskFunc) Part(part, worker int) { f(part, worker) }

// cacheLine separates fields that different cores write. It spans two lines because
// hardware prefetches lines in pairs.
const cacheLine = 128

// Pool is a fixed set of worker goroutines for the CPU's arithmetic. Any goroutine
// may start a run; concurrent runs take turns.
//
// A run works as follows. The caller stores the task, then the number of its parts
// in unclaimed. A worker that decrements unclaimed to a value not below zero owns
// that part. Only then does it read the task, which cannot change before the part
// is counted as done. So a worker that wakes late finds either nothing or a part of
// a newer run, and the run never waits for a worker that is still asleep.
type Pool struct {
	mu      sync.Mutex // held during a run
	task    Task
	parts   int
	failure *TaskPanic // first panic of this run; guarded by failed
	failed  sync.Mutex

	_         [cacheLine]byte
	unclaimed atomic.Int64 // parts not yet claimed; zero or less: none
	_         [cacheLine]byte
	pending   atomic.Int64 // parts not yet finished
	_         [cacheLine]byte

	caller  parking
	helpers []parking // one per goroutine; helper i is worker i+1
	closed  atomic.Bool
	exited  sync.WaitGroup
	spin    time.Duration // how long a waiter spins before it sleeps

	ranges    sync.Mutex // held during RunRange; guards rangeTask and minUnits
	rangeTask RangeTask
	minUnits  int
	cores     []core
	rangePart func(part, worker int) // workRange as a func value, created once because creating it allocates
}

// New starts n-1 goroutines; the goroutine that calls Run is the n-th worker. An n
// below 1 counts as 1, which starts none. Close stops the goroutines.
func New(n int) *Pool {
	n = max(n, 1)
	w := &Pool{helpers: make([]parking, n-1), cores: make([]core, n), spin: spinTime(n, processors)}
	w.rangePart = w.workRange
	w.caller.init()
	w.exited.Add(len(w.helpers))
	for i := range w.helpers {
		w.helpers[i].init()
		go w.help(i)
	}
	return w
}

// Count returns the number of workers, including the caller of Run.
func (w *Pool) Count() int { return len(w.helpers) + 1 }

// Run calls fn once for every part in [0, parts), on all workers, and returns after
// the last call has returned. Idle workers claim parts one by one in ascending
// order, which balances uneven parts and uneven cores. The assignment of parts to
// workers differs from run to run.
//
// Run does not allocate. A function literal that captures variables allocates where
// it is written, so a hot path creates its closures once, or uses RunTask with a
// struct that it reuses.
//
// When a call panics, Run drops the unclaimed parts, waits for the others and
// panics on the caller's goroutine with a *TaskPanic.
func (w *Pool) Run(parts int, fn func(part, worker int)) { w.RunTask(parts, taskFunc(fn)) }

// RunTask is Run for a Task.
func (w *Pool) RunTask(parts int, task Task) {
	if parts <= 0 {
		return
	}
	w.mu.Lock()
	// Deferred: even if a task calls runtime.Goexit, the mutex must not be unlocked
	// while helpers still work.
	defer w.finish()
	w.task, w.parts = task, parts
	w.pending.Store(int64(parts))
	w.unclaimed.Store(int64(parts))
	// The caller takes a part too, so at most parts-1 helpers are useful.
	for i := range min(parts-1, len(w.helpers)) {
		w.helpers[i].wake()
	}
	w.work(0)
}

// finish waits until no part is in flight, ends the run and propagates a panic.
func (w *Pool) finish() {
	for w.pending.Load() != 0 && !w.spinUntil(&w.caller, w.runDone) {
		// The wake-up may belong to the end of an earlier run: check again.
		w.caller.sleep(w.runDone)
	}
	failure := w.failure
	w.task, w.failure = nil, nil
	w.mu.Unlock()
	if failure != nil {
		panic(failure)
	}
}

func (w *Pool) runDone() bool { return w.pending.Load() == 0 }

func (w *Pool) workOrClose() bool { return w.unclaimed.Load() > 0 || w.closed.Load() }

// work claims parts until none is left. It counts them as done in one step at the
// end, which saves an atomic operation per part. The run cannot end before that, so
// all parts that it claims belong to the same run.
func (w *Pool) work(worker int) {
	done := int64(0)
	complete := false
	defer func() {
		if !complete {
			done += 1 + w.abandon(recover())
		}
		if done > 0 && w.pending.Add(-done) == 0 && worker != 0 {
			w.caller.wake()
		}
	}()
	for w.unclaimed.Load() > 0 {
		left := w.unclaimed.Add(-1)
		if left < 0 {
			break
		}
		w.task.Part(w.parts-1-int(left), worker)
		done++
	}
	complete = true
}

// abandon records why a part did not return, drops the unclaimed parts and returns
// their number.
func (w *Pool) abandon(reason any) int64 {
	if reason == nil {
		reason = "the task called runtime.Goexit"
	}
	w.failed.Lock()
	if w.failure == nil {
		w.failure = &TaskPanic{Value: reason, Stack: debug.Stack()}
	}
	w.failed.Unlock()
	return max(0, w.unclaimed.Swap(0))
}

// help is the main loop of one helper: work, spin, sleep.
func (w *Pool) help(i int) {
	defer w.exited.Done()
	// A task may read a mapping of a file that was truncated. That must be a panic
	// of the run, not the end of the process.
	debug.SetPanicOnFault(true)
	for !w.closed.Load() {
		w.work(i + 1)
		if !w.spinUntil(&w.helpers[i], w.workOrClose) {
			w.helpers[i].sleep(w.workOrClose)
		}
	}
}

// Close waits for a run in progress and stops the goroutines. It may be called more
// than once. A Run after Close executes on the caller alone.
func (w *Pool) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed.Store(true)
	for i := range w.helpers {
		w.helpers[i].wake()
	}
	w.exited.Wait()
}

// TaskPanic is the value that Run panics with when a part panicked. It holds the
// value and the stack of the first panic, which the caller's own stack does not
// show.
type TaskPanic struct {
	Value any    // what was passed to panic
	Stack []byte // stack of the goroutine that panicked
}

// Error returns the panic's value and stack.
func (p *TaskPanic) Error() string {
	return fmt.Sprintf("panic in a task: %v\n\n%s", p.Value, p.Stack)
}

// Unwrap returns the value if it is an error, such as a runtime.Error.
func (p *TaskPanic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// Span returns range number part of [0, n) split into nearly equal, consecutive
// ranges. The first n % parts ranges hold one element more.
func Span(n, parts, part int) (lo, hi int) {
	size, rest := n/parts, n%parts
	lo = part*size + min(part, rest)
	hi = lo + size
	if part < rest {
		hi++
	}
	return lo, hi
}

// spinTime returns how long a waiter of n workers may spin. With more workers than
// processors another thread needs the core, so waiters sleep at once.
func spinTime(n, processors int) time.Duration {
	if n > processors {
		return 0
	}
	return maxSpin
}
