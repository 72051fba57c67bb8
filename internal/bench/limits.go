package bench

import (
	"fmt"

	"github.com/llmrun/llmrun/quant/limits"
	"github.com/llmrun/llmrun/tiering"
)

// Limits is what the machine does at most, with as many threads as the tests
// use at most.
type Limits struct {
	ReadGBs     float64 `json:"read_gb_s"`  // 10^9 bytes read from memory a second
	Int8Gops    float64 `json:"int8_gop_s"` // 10^9 products and sums of 8-bit integers a second
	Instruction string  `json:"int8_instruction"`
	// The same of the processor's matrix unit; without one 0 and nothing.
	MatrixGops        float64 `json:"matrix_gop_s,omitempty"`
	MatrixInstruction string  `json:"matrix_instruction,omitempty"`

	SweepBytes int        `json:"sweep_bytes"` // memory that was read for it
	ByThreads  []LimitsAt `json:"by_threads"`
}

// LimitsAt is what the machine does at most with some number of threads.
type LimitsAt struct {
	Threads  int     `json:"threads"`
	ReadGBs  float64 `json:"read_gb_s"`
	Int8Gops float64 `json:"int8_gop_s"`
	Matrix   float64 `json:"matrix_gop_s,omitempty"`
}

// minSweepBytes is the smallest memory that is read on a machine that is short
// of it: more than most caches.
const minSweepBytes = 64 << 20

// setSweep chooses how much memory is read: n, or with 0 as much as suits the
// machine.
func (l *Limits) setSweep(n int) {
	l.SweepBytes = n
	if n > 0 {
		return
	}
	l.SweepBytes = limits.SweepBytes
	if available := availableMemory(); available > 0 {
		l.SweepBytes = int(max(minSweepBytes, min(limits.SweepBytes, available/2)))
	}
}

// measure adds a measurement for each number of threads, ascending. The best of
// several counts.
func (l *Limits) measure(threads []int) error {
	frame, err := tiering.Alloc(tiering.New(0), tiering.Scratch, l.SweepBytes)
	if err != nil {
		return fmt.Errorf("memory to measure the read bandwidth with: %w", err)
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
		read, err := limits.ReadBandwidth(memory, n)
		if err != nil {
			return err
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

// at returns the limits for a number of threads that was measured.
func (l *Limits) at(threads int) LimitsAt {
	for _, at := range l.ByThreads {
		if at.Threads == threads {
			return at
		}
	}
	return LimitsAt{}
}
