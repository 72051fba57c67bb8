// Package limits measures two hardware limits of a machine: memory read
// bandwidth and peak int8 throughput. Benchmarks report engine speeds as
// fractions of these limits. Both drift with the machine's load, so measure
// the limits and the engine within the same minutes.
package limits

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmrun/llmrun/quant"
)

// SweepBytes exceeds the last-level caches of current machines, so that a sweep
// over SweepBytes measures DRAM.
const SweepBytes = 1 << 30

// LeastBytes is the memory that ReadBandwidth needs for each thread.
const LeastBytes = 1 << 20

// NewMemory returns a buffer for ReadBandwidth. It requests huge pages where the
// system offers them and writes to every page, so that each has its own frame.
func NewMemory(bytes int) []byte {
	memory := make([]byte, bytes)
	adviseHuge(memory)
	const page = 4096
	for i := 0; i < bytes; i += page {
		memory[i] = 1
	}
	return memory
}

// Number of repetitions. The fastest one counts, because interference only slows
// a run down. A run of peakRounds takes about 0.1 ms, far less than an operating
// system's time slice. The threads of a peak are started several times, because the
// system may put two of them on one processor and leave them there.
const (
	sweeps     = 5
	peakStarts = 5
	peakRuns   = 40
	peakRounds = 1 << 15
)

// ReadBandwidth returns the aggregate read bandwidth of the given number of
// threads in bytes per second, the best of several sweeps over memory. Pass
// NewMemory(SweepBytes) to measure the machine's limit. The caller must have
// written every page of memory: the system may back unwritten pages with one
// shared zero page, which stays in cache.
func ReadBandwidth(memory []byte, threads int) (float64, error) {
	const stripeBytes = LeastBytes // threads claim stripes one by one and so finish together
	if threads < 1 || len(memory) < stripeBytes*threads {
		return 0, fmt.Errorf("limits: %d threads need %d bytes of memory each; the buffer has %d in total", threads, stripeBytes, len(memory))
	}
	stripes := len(memory) / stripeBytes
	var next atomic.Int64
	best := fastest(sweeps, 1, threads, func() { next.Store(0) }, func() {
		for {
			i := int(next.Add(1)) - 1
			if i >= stripes {
				return
			}
			Read(memory[i*stripeBytes : (i+1)*stripeBytes])
		}
	})
	return float64(stripes*stripeBytes) / best.Seconds(), nil
}

// Int8Peak returns the peak int8 throughput of the given number of threads in
// operations per second. A multiply-add counts as two operations. instruction
// names the measured instruction: the fastest int8 multiply-add of the active
// path (quant.Features).
func Int8Peak(threads int) (perSecond float64, instruction string, err error) {
	if threads < 1 {
		return 0, "", fmt.Errorf("limits: %d threads", threads)
	}
	p := peakOf(quant.Features())
	return p.measure(threads), p.instruction, nil
}

// MatrixPeak is Int8Peak for the processor's matrix unit (AMX). It returns 0 and
// an empty instruction if the active path uses no matrix unit.
func MatrixPeak(threads int) (perSecond float64, instruction string, err error) {
	if threads < 1 {
		return 0, "", fmt.Errorf("limits: %d threads", threads)
	}
	if !quant.Tiles() {
		return 0, "", nil
	}
	return tilePeak.measure(threads), tilePeak.instruction, nil
}

// peak is a loop that measures the throughput of one instruction.
type peak struct {
	instruction string
	perRound    float64 // operations per iteration of the loop
	run         func(rounds int)
	rounds      int // iterations per run; 0 means peakRounds
}

// measure returns the highest aggregate throughput in operations per second.
func (p *peak) measure(threads int) float64 {
	rounds := peakRounds
	if p.rounds > 0 {
		rounds = p.rounds
	}
	best := fastest(peakStarts, peakRuns, threads, func() {}, func() { p.run(rounds) })
	return float64(threads) * float64(rounds) * p.perRound / best.Seconds()
}

// fastest returns the shortest time in which all threads complete the work. It starts
// the threads a number of times, and calls prepare before each run of them.
func fastest(starts, runs, threads int, prepare, work func()) (best time.Duration) {
	for start := range starts {
		if took := fastestRun(runs, threads, prepare, work); start == 0 || took < best {
			best = took
		}
	}
	return best
}

// fastestRun is fastest for threads that are started once. They meet before and after
// each run, spinning: waking one takes tens of microseconds, which would count as a part of the run.
func fastestRun(runs, threads int, prepare, work func()) (best time.Duration) {
	var begins, ends meeting
	var all sync.WaitGroup
	for t := range threads {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for run := range runs {
				if t == 0 {
					prepare()
				}
				began := begins.meet((run + 1) * threads)
				work()
				ended := ends.meet((run + 1) * threads)
				if took := ended - began; t == 0 && (run == 0 || took < best) {
					best = took
				}
			}
		})
	}
	all.Wait()
	return max(best, 1)
}

// epoch is when the times of meetings begin.
var epoch = time.Now()

// meeting is a point at which threads wait for each other, again and again.
type meeting struct {
	arrived atomic.Int64 // threads in all meetings
	last    atomic.Int64 // latest arrival, in nanoseconds since epoch
}

// patience is how often a thread looks for the others before it gives up its turn, for
// where there are fewer processors than threads.
const patience = 1 << 10

// meet waits until the given number of threads have arrived, those of earlier meetings
// included, and returns when the last one did.
func (m *meeting) meet(threads int) time.Duration {
	now := int64(time.Since(epoch))
	for last := m.last.Load(); last < now && !m.last.CompareAndSwap(last, now); last = m.last.Load() {
	}
	m.arrived.Add(1)
	for i := 1; m.arrived.Load() < int64(threads); i++ {
		if i%patience == 0 {
			runtime.Gosched()
		}
	}
	return time.Duration(m.last.Load())
}

// seen receives the results of loops, so that the compiler cannot remove them.
var seen atomic.Uint64

// readPlain loads memory in portable Go. It nearly reaches the bandwidth of one
// thread; several threads together may stay below the machine's limit.
func readPlain(memory []byte) {
	var a, b, c, d uint64
	for len(memory) >= 32 {
		a |= binary.LittleEndian.Uint64(memory)
		b |= binary.LittleEndian.Uint64(memory[8:])
		c |= binary.LittleEndian.Uint64(memory[16:])
		d |= binary.LittleEndian.Uint64(memory[24:])
		memory = memory[32:]
	}
	seen.Store(a | b | c | d)
}

// plainPeak measures scalar multiply-adds, for paths without an int8 SIMD
// instruction.
var plainPeak = peak{instruction: "scalar", perRound: 4 * 2, run: func(rounds int) {
	var a, b, c, d int32
	for i := range int32(rounds) {
		x := i & 127
		a += x * 3
		b += x * x
		c += x * (x + 1)
		d += x * (x ^ 5)
	}
	seen.Store(uint64(a + b + c + d))
}}
