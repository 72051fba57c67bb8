// Package limits measures what a machine can do at most: how fast it reads
// memory and how fast it multiplies small integers. Speeds of an engine mean
// something as fractions of these, measured in the same minutes, because
// both drift with what else runs on the machine.
package limits

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmrun/llmrun/quant"
)

// SweepBytes is a size of memory that is larger than the caches of current
// machines, so that a sweep over it measures memory.
const SweepBytes = 1 << 30

// NewMemory returns memory to measure with: in large pages where the system has
// them, and written once, so that every page is there.
func NewMemory(bytes int) []byte {
	memory := make([]byte, bytes)
	adviseHuge(memory)
	const page = 4096
	for i := 0; i < bytes; i += page {
		memory[i] = 1
	}
	return memory
}

// A limit is measured that often and the best counts, as everything that
// disturbs a measurement makes it worse. A peak is measured in less
// than 0.1 ms, which is much shorter than a scheduler's turn.
const (
	sweeps     = 5
	peakRuns   = 200
	peakRounds = 1 << 14
)

// ReadBandwidth returns the bytes a second at which so many threads together
// read memory, best of some sweeps. NewMemory(SweepBytes) gives the machine's
// limit; other memory must have been written once, or the system may back all of
// it with one page of zeros.
func ReadBandwidth(memory []byte, threads int) (float64, error) {
	const chunk = 1 << 20 // threads take these in turn and so end together
	if threads < 1 || len(memory) < chunk*threads {
		return 0, fmt.Errorf("limits: %d threads cannot share %d bytes, they need %d each", threads, len(memory), chunk)
	}
	chunks := len(memory) / chunk
	best := fastest(sweeps, threads, func() func(int) {
		var next atomic.Int64
		return func(int) {
			for {
				i := int(next.Add(1)) - 1
				if i >= chunks {
					return
				}
				Read(memory[i*chunk : (i+1)*chunk])
			}
		}
	})
	return float64(chunks*chunk) / best.Seconds(), nil
}

// Int8Peak returns how many products and sums of 8-bit integers so many
// threads together compute a second, counting two operations for a product
// that is added. instruction names what does it: the best that the path in use
// (quant.Features) has for it.
func Int8Peak(threads int) (perSecond float64, instruction string, err error) {
	if threads < 1 {
		return 0, "", fmt.Errorf("limits: %d threads", threads)
	}
	p := peakOf(quant.Features())
	return p.measure(threads), p.instruction, nil
}

// MatrixPeak is Int8Peak for the processor's matrix unit, which multiplies
// whole tiles: 0 and no name where the path in use has none.
func MatrixPeak(threads int) (perSecond float64, instruction string, err error) {
	if threads < 1 {
		return 0, "", fmt.Errorf("limits: %d threads", threads)
	}
	if !quant.Tiles() {
		return 0, "", nil
	}
	return tilePeak.measure(threads), tilePeak.instruction, nil
}

// peak is a loop of integer products.
type peak struct {
	instruction string
	perRound    float64 // operations in a round of the loop
	run         func(rounds int)
	rounds      int // of a measurement, if not peakRounds
}

// measure returns the most operations a second that threads together do.
func (p *peak) measure(threads int) float64 {
	rounds := peakRounds
	if p.rounds > 0 {
		rounds = p.rounds
	}
	best := fastest(peakRuns, threads, func() func(int) {
		return func(int) { p.run(rounds) }
	})
	return float64(threads) * float64(rounds) * p.perRound / best.Seconds()
}

// fastest returns the shortest time in which threads end the work, which is
// made anew for each of the runs.
func fastest(runs, threads int, work func() func(thread int)) time.Duration {
	var best time.Duration
	for range runs {
		run := work()
		var ready, done sync.WaitGroup
		begin := make(chan struct{})
		for t := range threads {
			ready.Add(1)
			done.Go(func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				ready.Done()
				<-begin
				run(t)
			})
		}
		ready.Wait()
		start := time.Now()
		close(begin)
		done.Wait()
		if took := time.Since(start); best == 0 || took < best {
			best = took
		}
	}
	return best
}
