package threadpool

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Task is work that divides into parts. Part may be called from several
// goroutines at once, each with its own worker number, and must not call Run of
// the same Workers.
type Task interface {
	// Part does one part. worker is below Workers.Count and no two calls that
	// overlap share it: it is an index into per-thread scratch memory.
	Part(part, worker int)
}

// taskFunc is a plain function as a Task. A func value is one pointer, so that
// converting it to the interface does not allocate.
type taskFunc func(part, worker int)

func (f taskFunc) Part(part, worker int) { f(part, worker) }

// cacheLine keeps fields that different cores write apart from each other. Two
// lines, because the neighbour is prefetched along with a line.
const cacheLine = 128

// Pool is a fixed set of threads that do the CPU's arithmetic. Runs may be
// started from any goroutine; they take turns.
//
// How a run works: the caller stores the task and then the number of its parts
// in unclaimed. Whoever lowers unclaimed to a value not below zero owns that
// part, and only then reads the task, which cannot change before the part is
// counted as done. So a worker that comes late finds either nothing or a part
// of a newer run that is rightly its own; nobody has to wait for a worker that
// did not wake in time.
type Pool struct {
	mu      sync.Mutex // held for the whole of a run
	task    Task
	parts   int
	failure *TaskPanic // first panic of this run, guarded by failed
	failed  sync.Mutex

	_         [cacheLine]byte
	unclaimed atomic.Int64 // parts that nobody has taken yet; below zero means none
	_         [cacheLine]byte
	pending   atomic.Int64 // parts that are not finished yet
	_         [cacheLine]byte

	caller  parking
	helpers []parking // one for each goroutine; helper i is worker i+1
	closed  atomic.Bool
	exited  sync.WaitGroup
	spin    time.Duration // how long a waiter watches before it sleeps

	ranges    sync.Mutex // held for the whole of RunRange; guards ranger and least
	rangeTask RangeTask
	minUnits  int
	cores     []core
	rangePart func(part, worker int) // workRange, made once because making it allocates
}

// New starts n-1 goroutines; the goroutine that calls Run is the n-th
// worker. An n below 1 counts as 1, which starts none. Close stops them.
func New(n int) *Pool {
	n = max(n, 1)
	w := &Pool{helpers: make([]parking, n-1), cores: make([]core, n), spin: spinTime(n)}
	w.rangePart = w.workRange
	w.caller.init()
	w.exited.Add(len(w.helpers))
	for i := range w.helpers {
		w.helpers[i].init()
		go w.help(i)
	}
	return w
}

// Count returns the number of workers, the caller of Run included.
func (w *Pool) Count() int { return len(w.helpers) + 1 }

// Run calls fn once for every part in [0, parts), on all workers, and returns
// when the last call has returned. Parts are handed out one by one in ascending
// order to whoever is free, so uneven parts and uneven cores even out; which
// worker gets which part differs from run to run.
//
// Run allocates nothing itself. A function literal that captures variables is
// allocated where it is written, so a hot path makes its closures once, or uses
// RunTask with a struct that it keeps.
//
// When a call panics, the parts that nobody has begun are dropped, and once the
// others are done Run panics on the caller's goroutine with a *TaskPanic.
func (w *Pool) Run(parts int, fn func(part, worker int)) { w.RunTask(parts, taskFunc(fn)) }

// RunTask is Run for a Task.
func (w *Pool) RunTask(parts int, task Task) {
	if parts <= 0 {
		return
	}
	w.mu.Lock()
	// Deferred, because a task that leaves through runtime.Goexit must not leave
	// helpers at work behind an unlocked mutex.
	defer w.finish()
	w.task, w.parts = task, parts
	w.pending.Store(int64(parts))
	w.unclaimed.Store(int64(parts))
	// The caller takes a part too, so at most parts-1 helpers are of use.
	for i := range min(parts-1, len(w.helpers)) {
		w.helpers[i].wake()
	}
	w.work(0)
}

// finish waits until no part is in flight, ends the run and passes a panic on.
func (w *Pool) finish() {
	for w.pending.Load() != 0 && !w.spinUntil(&w.caller, w.runDone) {
		// A wake-up may stem from the end of an earlier run: look again.
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

// work claims parts until none is left. It reports them as done together at the
// end, which saves an atomic operation for every part: the run cannot end
// before, so all parts that it claims are of the same run.
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

// abandon notes why a part did not return, takes back the parts that nobody has
// begun and returns how many they were.
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

// help is the life of one helper: work, watch for more, sleep.
func (w *Pool) help(i int) {
	defer w.exited.Done()
	// A task may touch a mapping of a file that has become shorter: that is to be a
	// panic of the run and not the end of the process.
	debug.SetPanicOnFault(true)
	for !w.closed.Load() {
		w.work(i + 1)
		if !w.spinUntil(&w.helpers[i], w.workOrClose) {
			w.helpers[i].sleep(w.workOrClose)
		}
	}
}

// Close waits for a run in progress and stops the goroutines. It may be called
// more than once. A Run after Close still does its work, on the caller alone.
func (w *Pool) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed.Store(true)
	for i := range w.helpers {
		w.helpers[i].wake()
	}
	w.exited.Wait()
}

// TaskPanic is what Run panics with when a part panicked. It keeps the value and
// the place of the first panic, which the caller's own stack does not show.
type TaskPanic struct {
	Value any    // what was passed to panic
	Stack []byte // of the goroutine that panicked
}

// Error shows the value and the stack it came from.
func (p *TaskPanic) Error() string {
	return fmt.Sprintf("panic in a task: %v\n\n%s", p.Value, p.Stack)
}

// Unwrap returns the value if it is an error, such as a runtime.Error.
func (p *TaskPanic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// Span returns the part-th of parts nearly equal, consecutive ranges of
// [0, n): the first n % parts of them hold one element more.
func Span(n, parts, part int) (lo, hi int) {
	size, rest := n/parts, n%parts
	lo = part*size + min(part, rest)
	hi = lo + size
	if part < rest {
		hi++
	}
	return lo, hi
}

// spinTime returns how long a waiter of n workers may spin. With more workers
// than processors somebody else needs the core: sleep at once.
func spinTime(n int) time.Duration {
	if n > processors {
		return 0
	}
	return maxSpin
}
