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
)

// rangeFunc is a plain function as a Ranger.
type rangeFunc func(lo, hi, worker int)

func (f rangeFunc) Range(lo, hi, worker int) { f(lo, hi, worker) }

// Every unit is done once, whatever the number of units and workers and
// whatever rates were measured before.
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
			require.LessOrEqual(t, int(short.Load()), workers, "only what ends a home is short")
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
	require.Equal(t, []int{533, 533, 534}, homes(), "nothing is known yet")
	w.cores[0].observe(400, 1000)
	w.cores[1].observe(391, 1000) // noise
	w.cores[2].observe(100, 1000)
	require.Equal(t, []int{711, 711, 178}, homes())
	for range 100 {
		w.cores[2].observe(200, 1000) // no longer disturbed
		w.cores[0].observe(400, 0)    // a clock that stood still says nothing
	}
	require.Equal(t, []int{640, 640, 320}, homes())
	w.cores[2].observe(1, 1_000_000_000)
	for range 100 {
		w.cores[2].observe(1, 1_000_000_000)
	}
	require.Equal(t, []int{752, 753, 95}, homes(), "nobody is left out for good")
}

// A run begins where HomeStart says.
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

// A waiter asks for all of the memory it was told about, once, and then for the
// next; what comes to an end below a step is rounded up.
func TestWaitersFetchWhatIsForeseen(t *testing.T) {
	w := New(2)
	defer w.Close()
	const memory, size = 1 << 30, 10*prefetchStep + 1 // nothing need be there
	require.False(t, w.caller.prefetchNext(), "nothing was foreseen")
	for _, n := range []int{size, 3 * prefetchStep, 0} {
		w.Prefetch(0, memory+size-uintptr(n), n)
		for range (n + prefetchStep - 1) / prefetchStep {
			require.True(t, w.caller.prefetchNext())
		}
		require.False(t, w.caller.prefetchNext())
	}
	w.Prefetch(1, memory, size) // concurrently: the race detector watches
	w.Run(2, func(int, int) {})
}

// A worker that does not come leaves its home to the others.
func TestRunRangeStealsFromTheLate(t *testing.T) {
	w := New(2)
	defer w.Close()
	var mu sync.Mutex
	total, first := 0, make(chan struct{})
	w.RunRange(1000, 1, rangeFunc(func(lo, hi, worker int) {
		if worker == 1 { // begins one part and is away until all others are done
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

func TestRunRangePassesPanicsOn(t *testing.T) {
	w := New(2)
	defer w.Close()
	require.Panics(t, func() { w.RunRange(100, 1, rangeFunc(func(int, int, int) { panic("no") })) })
	done := atomic.Int64{}
	w.RunRange(100, 1, rangeFunc(func(lo, hi, _ int) { done.Add(int64(hi - lo)) }))
	require.EqualValues(t, 100, done.Load())
	require.Zero(t, testing.AllocsPerRun(50, func() { w.RunRange(100, 7, nothing{}) }))
}

type nothing struct{}

func (nothing) Range(int, int, int) {}

// BenchmarkSlowCore divides work among two workers of which one is made slower,
// as a little core is: into equal halves, and by measured rates. With a worker of
// 1/s of the other's speed, halves take s/2 of one undisturbed worker's time and
// a division in proportion s/(s+1): "gain" should come near (s+1)/2. Both are
// measured in turn; the shortest times count.
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
				for arrived.Add(1); arrived.Load() < 2; { // each worker gets one
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

// burn computes for about a microsecond for each unit.
func burn(units int) {
	x := uint64(1)
	for range units * 600 {
		x = x*6364136223846793005 + 1442695040888963407
	}
	sink.Store(x)
}

var sink atomic.Uint64
