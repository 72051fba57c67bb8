package threadpool

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// rangeFunc adapts a function to RangeTask.
type rangeFunc func(lo, hi, worker int)

func (f rangeFunc) Range(lo, hi, worker int) { f(lo, hi, worker) }

// TestRunRangeCoversAllUnits checks that RunRange processes every unit once for any
// number of units and workers and for any measured rates.
func TestRunRangeCoversAllUnits(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	for _, workers := range []int{1, 2, 3, 8} {
		w := New(workers)
		for _, units := range []int{0, 1, 2, 7, 64, 1000, 4097} {
			for i := range w.cores {
				w.cores[i].observe(1+rng.IntN(1000), time.Duration(1+rng.IntN(1000)))
			}
			least := 1 + rng.IntN(units+1)
			done := make([]atomic.Int32, units)
			var short atomic.Int32
			w.RunRange(units, least, rangeFunc(func(lo, hi, worker int) {
				if hi-lo < least {
					short.Add(1)
				}
				if worker < 0 || worker >= workers || lo >= hi {
					panic(fmt.Sprint(lo, hi, worker))
				}
				for i := lo; i < hi; i++ {
					done[i].Add(1)
				}
			}))
			for i := range done {
				require.EqualValues(t, 1, done[i].Load(), "unit %d of %d", i, units)
			}
			require.LessOrEqual(t, int(short.Load()), workers, "only the last part of a home may be short")
		}
		w.Close()
	}
}

func TestHomesFollowRates(t *testing.T) {
	w := New(3)
	defer w.Close()
	homes := func() (sizes []int) {
		w.assignHomes(1600)
		end := 0
		for i := range w.cores {
			lo, hi := unpackRange(w.cores[i].home.Load())
			require.Equal(t, end, lo)
			sizes, end = append(sizes, hi-lo), hi
		}
		require.Equal(t, 1600, end)
		return sizes
	}
	require.Equal(t, []int{533, 533, 534}, homes(), "no rates measured")
	w.cores[0].observe(400, 1000)
	w.cores[1].observe(391, 1000) // within the noise
	w.cores[2].observe(100, 1000)
	require.Equal(t, []int{711, 711, 178}, homes())
	for range 100 {
		w.cores[2].observe(200, 1000) // the disturbance has ended
		w.cores[0].observe(400, 0)    // observe ignores a duration of zero
	}
	require.Equal(t, []int{640, 640, 320}, homes())
	w.cores[2].observe(1, 1_000_000_000)
	for range 100 {
		w.cores[2].observe(1, 1_000_000_000)
	}
	require.Equal(t, []int{752, 753, 95}, homes(), "a slow worker keeps a minimum home")
}

// TestHomeStart compares HomeStart with the homes of the next run.
func TestHomeStart(t *testing.T) {
	w := New(3)
	defer w.Close()
	w.cores[0].observe(100, 1000)
	w.cores[1].observe(400, 1000)
	for _, units := range []int{1, 5, 77, MaxUnits} {
		w.assignHomes(units)
		for i := range w.cores {
			lo, _ := unpackRange(w.cores[i].home.Load())
			require.Equal(t, lo, w.HomeStart(i, units))
		}
	}
}

// TestWaitersPrefetchAnnouncedMemory checks that a waiter prefetches each announced
// range once, in steps that cover its end.
func TestWaitersPrefetchAnnouncedMemory(t *testing.T) {
	w := New(2)
	defer w.Close()
	const memory, size = 1 << 30, 10*prefetchStep + 1 // the addresses need not be mapped
	require.False(t, w.caller.prefetchNext(), "no range was announced")
	for _, n := range []int{size, 3 * prefetchStep, 0} {
		w.Prefetch(0, memory+size-uintptr(n), n)
		for range (n + prefetchStep - 1) / prefetchStep {
			require.True(t, w.caller.prefetchNext())
		}
		require.False(t, w.caller.prefetchNext())
	}
	w.Prefetch(1, memory, size) // run concurrently for the race detector
	w.Run(2, func(int, int) {})
}

// TestRunRangeStealsFromLateWorkers checks that the other workers process the home of a
// delayed worker.
func TestRunRangeStealsFromLateWorkers(t *testing.T) {
	w := New(2)
	defer w.Close()
	var mu sync.Mutex
	total, first := 0, make(chan struct{})
	w.RunRange(1000, 1, rangeFunc(func(lo, hi, worker int) {
		if worker == 1 { // starts one part and stays delayed until the other worker has processed the rest
			<-first
		}
		mu.Lock()
		defer mu.Unlock()
		if total += hi - lo; worker == 0 && total >= 700 {
			select {
			case <-first:
			default:
				close(first)
			}
		}
	}))
	require.Equal(t, 1000, total)
}

func TestRunRangePropagatesPanics(t *testing.T) {
	w := New(2)
	defer w.Close()
	require.Panics(t, func() { w.RunRange(100, 1, rangeFunc(func(int, int, int) { panic("no") })) })
	done := atomic.Int64{}
	w.RunRange(100, 1, rangeFunc(func(lo, hi, _ int) { done.Add(int64(hi - lo)) }))
	require.EqualValues(t, 100, done.Load())
	require.Zero(t, testutil.AllocsPerRun(50, 0, func() { w.RunRange(100, 7, emptyTask{}) }))
}

type emptyTask struct{}

func (emptyTask) Range(int, int, int) {}

// BenchmarkSlowCore splits work between two workers, of which one is slowed down like a
// little core. It compares two equal halves with a split by measured rates. If one
// worker has 1/s of the other's speed, equal halves take s/2 of the time that one
// full-speed worker takes, and a proportional split takes s/(s+1). The reported gain
// should be close to (s+1)/2. The benchmark measures both alternately and compares the
// shortest times.
func BenchmarkSlowCore(b *testing.B) {
	const units = 1000
	for _, slow := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("times=%d", slow), func(b *testing.B) {
			w := New(2)
			defer w.Close()
			work := rangeFunc(func(lo, hi, worker int) {
				n := hi - lo
				if worker == 1 {
					n *= slow
				}
				burn(n)
			})
			var arrived atomic.Int64
			half := func(part, worker int) {
				for arrived.Add(1); arrived.Load() < 2; { // each worker processes one half
					runtime.Gosched()
				}
				work(part*units/2, (part+1)*units/2, worker)
			}
			var halves, balanced time.Duration
			for b.Loop() {
				arrived.Store(0)
				start := time.Now()
				w.Run(2, half)
				halves = least(halves, time.Since(start))
				start = time.Now()
				w.RunRange(units, units/64, work)
				balanced = least(balanced, time.Since(start))
			}
			b.ReportMetric(float64(halves)/float64(balanced), "gain")
			b.ReportMetric(float64(slow+1)/2, "expected")
		})
	}
}

func least(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// burn computes for about a microsecond per unit.
func burn(units int) {
	x := uint64(1)
	for range units * 600 {
		x = x*6364136223846793005 + 1442695040888963407
	}
	sink.Store(x)
}

var sink atomic.Uint64
