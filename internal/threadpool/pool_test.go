package threadpool

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// newPool returns a pool. The cleanup closes it and checks that no goroutine is left.
func newPool(t testing.TB, n int) *Pool {
	noneLeft := testutil.NoGoroutinesLeft(t)
	w := New(n)
	t.Cleanup(func() {
		w.Close()
		w.Close() // a second Close has no effect
		noneLeft()
	})
	return w
}

func TestRunProcessesEveryPartOnce(t *testing.T) {
	for _, n := range []int{-1, 1, 2, 3, 8} {
		w := newPool(t, n)
		require.Equal(t, max(n, 1), w.Count())
		for _, parts := range []int{-3, 0, 1, 2, 7, 64, 1000} {
			count := make([]int32, max(parts, 0)) // [parts]; not atomic, because each part has one writer
			w.Run(parts, func(part, worker int) { count[part]++ })
			require.False(t, slices.ContainsFunc(count, func(c int32) bool { return c != 1 }), "n=%d parts=%d", n, parts)
		}
	}
}

// TestConsecutiveRunsDoNotMix starts many short runs in a row. A late worker must
// neither repeat a part nor use the previous task.
func TestConsecutiveRunsDoNotMix(t *testing.T) {
	for _, n := range []int{2, 4, 9} {
		w := newPool(t, n)
		busy := make([]atomic.Bool, n) // [worker]
		var sum [5]int
		for run := range 5000 {
			if run%1000 == 0 {
				awaitSleep(t, w)
			}
			w.Run(len(sum), func(part, worker int) {
				if busy[worker].Swap(true) {
					panic("two concurrent calls have the same worker number")
				}
				sum[part] += run
				busy[worker].Store(false)
			})
		}
		for part, got := range sum {
			require.Equal(t, 4999*5000/2, got, "part %d", part)
		}
	}
}

func TestConcurrentRunsTakeTurns(t *testing.T) {
	w := newPool(t, 3)
	var running, total atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var mine atomic.Int64
			for range 200 {
				w.Run(6, func(int, int) { mine.Add(1); total.Add(1) })
				running.Add(1)
			}
			if mine.Load() != 1200 {
				t.Errorf("the runs of one caller processed %d of 1200 parts", mine.Load())
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 4800, total.Load())
	require.EqualValues(t, 800, running.Load())
}

// TestHelpersTakePart runs two parts that wait for each other, so two workers must run
// them.
func TestHelpersTakePart(t *testing.T) {
	w := newPool(t, 2)
	for range 50 {
		var meet sync.WaitGroup
		meet.Add(2)
		w.Run(2, func(int, int) { meet.Done(); meet.Wait() })
	}
}

func TestPanicPropagatesToCaller(t *testing.T) {
	cause := errors.New("broken")
	for _, n := range []int{1, 2, 4} {
		w := newPool(t, n)
		for _, bad := range []int{0, 3, 99} {
			err := panicOf(func() {
				w.Run(100, func(part, _ int) {
					if part == bad {
						panic(cause)
					}
				})
			})
			var task *TaskPanic
			require.ErrorAs(t, err, &task)
			require.ErrorIs(t, err, cause)
			require.Contains(t, err.Error(), "TestPanicPropagatesToCaller", "the error contains the stack of the part")
		}
		done := make([]int, 10)
		w.Run(10, func(part, _ int) { done[part]++ })
		require.Equal(t, slices.Repeat([]int{1}, 10), done, "the pool remains usable after a panic")
	}
}

func TestGoexitDoesNotHang(t *testing.T) {
	w := newPool(t, 2)
	var meet sync.WaitGroup
	meet.Add(2)
	err := panicOf(func() {
		w.Run(2, func(_, worker int) {
			meet.Done()
			meet.Wait()
			if worker == 1 {
				runtime.Goexit()
			}
		})
	})
	require.ErrorContains(t, err, "Goexit")
	ran := 0
	w.Run(1, func(int, int) { ran++ })
	require.Equal(t, 1, ran)
}

func panicOf(f func()) (err error) {
	defer func() { err, _ = recover().(error) }()
	f()
	return nil
}

func TestRunAfterCloseUsesOnlyTheCaller(t *testing.T) {
	w := New(3)
	w.Close()
	var workers [8]int
	w.Run(8, func(part, worker int) { workers[part] = worker + 1 })
	require.Equal(t, [8]int{1, 1, 1, 1, 1, 1, 1, 1}, workers)
}

// countTask is a reusable task, which needs no allocation per run.
type countTask struct{ done atomic.Int64 }

func (c *countTask) Part(int, int) { c.done.Add(1) }

func TestRunDoesNotAllocate(t *testing.T) {
	w := newPool(t, 4)
	task := &countTask{}
	fn := task.Part
	require.Zero(t, testutil.AllocsPerRun(200, 0, func() { w.RunTask(16, task) }))
	require.Zero(t, testutil.AllocsPerRun(200, 0, func() { w.Run(16, fn) }))
}

// TestOversubscribedMachine runs far more workers than cores. A waiting worker must check
// its condition once and sleep instead of competing for the cores.
func TestOversubscribedMachine(t *testing.T) {
	w := newPool(t, 16*max(processors, runtime.GOMAXPROCS(0)))
	var ran atomic.Int64
	for range 500 {
		w.Run(w.Count(), func(int, int) { ran.Add(1) })
	}
	require.EqualValues(t, 500*w.Count(), ran.Load())
	awaitSleep(t, w)
	checks := 0
	require.False(t, w.spinUntil(&w.caller, func() bool { checks++; return false }))
	require.Equal(t, 1, checks, "a waiter does not spin")
}

// awaitSleep waits until all helpers sleep.
func awaitSleep(t *testing.T, w *Pool) {
	t.Helper()
	for i := range w.helpers {
		testutil.Eventually(t, fmt.Sprintf("helper %d sleeps", i), w.helpers[i].asleep.Load)
	}
}

// TestWaitersFallAsleep checks that the helpers fall asleep between runs and that a run
// wakes them.
func TestWaitersFallAsleep(t *testing.T) {
	w := newPool(t, 3)
	for range 3 {
		awaitSleep(t, w)
		// All workers meet, so none sleeps through the run.
		var meet sync.WaitGroup
		meet.Add(3)
		w.Run(3, func(int, int) { meet.Done(); meet.Wait() })
	}
}

// TestSpinTimeAdapts checks that a timeout halves the spin time and that a success
// restores it.
func TestSpinTimeAdapts(t *testing.T) {
	w := &Pool{spin: 2 * minSpin}
	var p parking
	never, at := func() bool { return false }, func() bool { return true }
	var seen []uint
	for range 5 {
		require.False(t, w.spinUntil(&p, never))
		seen = append(seen, p.misses)
	}
	require.Equal(t, []uint{1, 2, 3, 4, 4}, seen)
	for range 10 {
		require.True(t, w.spinUntil(&p, at))
	}
	require.Zero(t, p.misses)
}

func TestSpanCoversAllElements(t *testing.T) {
	for n := range 40 {
		for parts := 1; parts < 9; parts++ {
			next := 0
			for part := range parts {
				lo, hi := Span(n, parts, part)
				require.Equal(t, next, lo)
				require.Contains(t, []int{n / parts, n/parts + 1}, hi-lo)
				next = hi
			}
			require.Equal(t, n, next)
		}
	}
}

// rowsTask resembles a matmul whose parts take a few microseconds each.
type rowsTask struct {
	weights []float32 // [parts, partSize]
	sums    []float32 // [parts]
}

const partSize = 4096

func (r *rowsTask) Part(part, _ int) {
	sum := float32(0)
	for _, w := range r.weights[part*partSize:][:partSize] {
		sum += w
	}
	r.sums[part] = sum
}

// BenchmarkRun measures a step of a layer: a run, followed by some microseconds in
// which only the caller works. It measures the benefit of maxSpin.
func BenchmarkRun(b *testing.B) {
	const parts = 64
	task := &rowsTask{weights: make([]float32, parts*partSize), sums: make([]float32, parts)}
	for threads := 1; threads <= runtime.GOMAXPROCS(0); threads *= 2 {
		for _, spin := range []time.Duration{0, maxSpin / 40, maxSpin / 10, maxSpin, maxSpin * 5} {
			b.Run(fmt.Sprintf("threads=%d/spin=%v", threads, spin), func(b *testing.B) {
				w := newPool(b, threads)
				w.Run(threads, func(int, int) {}) // all helpers are awake, so none reads spin concurrently
				time.Sleep(10 * time.Millisecond)
				w.spin = spin
				for b.Loop() {
					w.RunTask(parts, task)
					task.Part(0, 0) // only the caller works
				}
			})
		}
	}
}
