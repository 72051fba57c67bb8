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

// newWorkers closes the workers at the end and checks that no goroutine stays.
func newWorkers(t testing.TB, n int) *Pool {
	noneLeft := testutil.NoGoroutinesLeft(t)
	w := New(n)
	t.Cleanup(func() {
		w.Close()
		w.Close() // allowed
		noneLeft()
	})
	return w
}

func TestRunDoesEveryPartOnce(t *testing.T) {
	for _, n := range []int{-1, 1, 2, 3, 8} {
		w := newWorkers(t, n)
		require.Equal(t, max(n, 1), w.Count())
		for _, parts := range []int{-3, 0, 1, 2, 7, 64, 1000} {
			count := make([]int32, max(parts, 0)) // [parts], plain: each part has one writer
			w.Run(parts, func(part, worker int) { count[part]++ })
			require.False(t, slices.ContainsFunc(count, func(c int32) bool { return c != 1 }), "n=%d parts=%d", n, parts)
		}
	}
}

// Many tiny runs in a row stress the hand-over between runs: a late worker must
// neither repeat a part nor see an old task.
func TestConsecutiveRunsDoNotMix(t *testing.T) {
	for _, n := range []int{2, 4, 9} {
		w := newWorkers(t, n)
		busy := make([]atomic.Bool, n) // [worker]
		var sum [5]int
		for run := range 5000 {
			if run%1000 == 0 {
				time.Sleep(time.Millisecond) // now the helpers sleep
			}
			w.Run(len(sum), func(part, worker int) {
				if busy[worker].Swap(true) {
					panic("two calls share a worker number")
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

func TestRunsFromSeveralGoroutinesTakeTurns(t *testing.T) {
	w := newWorkers(t, 3)
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
				t.Errorf("a caller's run did %d of 1200 parts", mine.Load())
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 4800, total.Load())
	require.EqualValues(t, 800, running.Load())
}

// Two parts that wait for each other finish only if two workers run them.
func TestHelpersTakePart(t *testing.T) {
	w := newWorkers(t, 2)
	for range 50 {
		var meet sync.WaitGroup
		meet.Add(2)
		w.Run(2, func(int, int) { meet.Done(); meet.Wait() })
	}
}

func TestPanicReachesTheCaller(t *testing.T) {
	cause := errors.New("broken")
	for _, n := range []int{1, 2, 4} {
		w := newWorkers(t, n)
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
			require.Contains(t, err.Error(), "TestPanicReachesTheCaller", "the stack of the part")
		}
		done := make([]int, 10)
		w.Run(10, func(part, _ int) { done[part]++ })
		require.Equal(t, slices.Repeat([]int{1}, 10), done, "usable after a panic")
	}
}

func TestGoexitDoesNotHang(t *testing.T) {
	w := newWorkers(t, 2)
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

func TestRunAfterCloseUsesTheCaller(t *testing.T) {
	w := New(3)
	w.Close()
	var workers [8]int
	w.Run(8, func(part, worker int) { workers[part] = worker + 1 })
	require.Equal(t, [8]int{1, 1, 1, 1, 1, 1, 1, 1}, workers)
}

// countTask shows that a kept task needs no allocation.
type countTask struct{ done atomic.Int64 }

func (c *countTask) Part(int, int) { c.done.Add(1) }

func TestRunAllocatesNothing(t *testing.T) {
	w := newWorkers(t, 4)
	task := &countTask{}
	fn := task.Part
	require.Zero(t, testing.AllocsPerRun(200, func() { w.RunTask(16, task) }))
	require.Zero(t, testing.AllocsPerRun(200, func() { w.Run(16, fn) }))
}

// With far more workers than cores a run must not take much longer: waiters
// sleep and do not fight for the cores. The bound is loose; spinning without
// end misses it by orders of magnitude.
func TestOversubscribedMachine(t *testing.T) {
	w := newWorkers(t, 16*runtime.GOMAXPROCS(0))
	start := time.Now()
	for range 500 {
		w.Run(w.Count(), func(int, int) {})
	}
	require.Less(t, time.Since(start), 10*time.Second)
}

// Between runs nobody keeps a core: helpers fall asleep, and a run wakes them.
func TestWaitersFallAsleep(t *testing.T) {
	w := newWorkers(t, 3)
	for range 3 {
		for i := range w.helpers {
			require.Eventually(t, w.helpers[i].asleep.Load, 10*time.Second, time.Millisecond, "helper %d", i)
		}
		var meet sync.WaitGroup // all workers at once, so that none sleeps through the run
		meet.Add(3)
		w.Run(3, func(int, int) { meet.Done(); meet.Wait() })
	}
}

// Waiting in vain costs patience, waiting with success brings it back.
func TestPatience(t *testing.T) {
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

func TestSpanCoversEverythingInOrder(t *testing.T) {
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

// rowsTask resembles a matrix product: parts of some microseconds each.
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

// BenchmarkRun measures a step of a layer: a run, then some microseconds in which
// only the caller works. It shows what maxSpin is good for.
func BenchmarkRun(b *testing.B) {
	const parts = 64
	task := &rowsTask{weights: make([]float32, parts*partSize), sums: make([]float32, parts)}
	for threads := 1; threads <= runtime.GOMAXPROCS(0); threads *= 2 {
		for _, spin := range []time.Duration{0, maxSpin / 40, maxSpin / 10, maxSpin, maxSpin * 5} {
			b.Run(fmt.Sprintf("threads=%d/spin=%v", threads, spin), func(b *testing.B) {
				w := newWorkers(b, threads)
				w.Run(threads, func(int, int) {}) // all have begun; none reads spin while it sleeps
				time.Sleep(10 * time.Millisecond)
				w.spin = spin
				for b.Loop() {
					w.RunTask(parts, task)
					task.Part(0, 0) // the caller alone
				}
			})
		}
	}
}
