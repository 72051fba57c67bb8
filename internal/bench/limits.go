package bench

import (
	"cmp"
	"fmt"
	"runtime/debug"

	"github.com/llmrun/llmrun/quant/limits"
	"github.com/llmrun/llmrun/tiering"
)

// Limits are the peaks of the machine, with the largest number of threads of the tests.
type Limits struct {
	ReadGBs     float64 `json:"read_gb_s"`  // 10^9 bytes per second read from memory
	Int8Gops    float64 `json:"int8_gop_s"` // 10^9 multiplications and additions of 8-bit integers per second
	Instruction string  `json:"int8_instruction"`
	// The peak of the processor's matrix unit; 0 and "" without one.
	MatrixGops        float64 `json:"matrix_gop_s,omitempty"`
	MatrixInstruction string  `json:"matrix_instruction,omitempty"`

	SweepBytes int        `json:"sweep_bytes"` // memory that the bandwidth measurement read
	ByThreads  []LimitsAt `json:"by_threads"`
}

// LimitsAt are the peaks of the machine with one number of threads.
type LimitsAt struct {
	Threads  int     `json:"threads"`
	ReadGBs  float64 `json:"read_gb_s"`
	Int8Gops float64 `json:"int8_gop_s"`
	Matrix   float64 `json:"matrix_gop_s,omitempty"`
}

// minSweepBytes is the least memory that the bandwidth measurement reads: more than most caches
// hold.
const minSweepBytes = 64 << 20

// Memory of the process while the limits are measured, which a budget has to hold beside the
// measurement: what will be used of code and stacks, and the whole program where the system does not
// tell how much it holds.
const (
	measureMargin = 4 << 20
	programBytes  = 24 << 20
)

// setSweep sets the memory that the bandwidth measurement reads: n, or a size that suits the
// machine if n is 0. With a memory budget it is at most what the budget leaves.
func (l *Limits) setSweep(n int, budget int64) {
	l.SweepBytes = n
	if n == 0 {
		l.SweepBytes = limits.SweepBytes
		if available := availableMemory(); available > 0 {
			l.SweepBytes = int(max(minSweepBytes, min(limits.SweepBytes, available/2)))
		}
	}
	if budget > 0 {
		debug.FreeOSMemory() // of the model that was measured
		held := cmp.Or(residentMemory(), programBytes) + measureMargin
		l.SweepBytes = int(max(0, min(int64(l.SweepBytes), budget-held)))
	}
}

// measureWithin measures the peaks in the memory that the budget leaves now.
func (l *Limits) measureWithin(o *Options) error {
	l.setSweep(o.SweepBytes, o.RAM)
	return l.measure(o.Threads)
}

// MayBeCached reports whether caches may hold the memory that the measurement read, so that it tells
// their bandwidth.
func (l *Limits) MayBeCached() bool { return l.SweepBytes < minSweepBytes }

// measure measures the peaks for each number of threads, in ascending order. It keeps the best of
// several measurements. It does not measure the bandwidth if a memory budget has no room for it.
func (l *Limits) measure(threads []int) error {
	frame, err := tiering.Alloc(tiering.New(0), tiering.Scratch, l.SweepBytes)
	if err != nil {
		return fmt.Errorf("allocating memory to measure the read bandwidth: %w", err)
	}
	defer frame.Free()
	memory := frame.Bytes()
	const page = 4096
	for i := 0; i < len(memory); i += page {
		memory[i] = 1
	}
	if l.ByThreads == nil {
		l.ByThreads = make([]LimitsAt, len(threads))
	}
	for i, n := range threads {
		read := 0.0
		if len(memory) >= n*limits.LeastBytes {
			if read, err = limits.ReadBandwidth(memory, n); err != nil {
				return err
			}
		}
		peak, instruction, err := limits.Int8Peak(n)
		if err != nil {
			return err
		}
		matrix, unit, err := limits.MatrixPeak(n)
		if err != nil {
			return err
		}
		at := &l.ByThreads[i]
		at.Threads, l.Instruction = n, instruction
		at.ReadGBs, at.Int8Gops = max(at.ReadGBs, read/1e9), max(at.Int8Gops, peak/1e9)
		at.Matrix, l.MatrixInstruction = max(at.Matrix, matrix/1e9), unit
		l.ReadGBs, l.Int8Gops, l.MatrixGops = at.ReadGBs, at.Int8Gops, at.Matrix
	}
	return nil
}

// at returns the measured peaks for a number of threads.
func (l *Limits) at(threads int) LimitsAt {
	for _, at := range l.ByThreads {
		if at.Threads == threads {
			return at
		}
	}
	return LimitsAt{}
}
