package solve

import (
	"errors"
	"time"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/quant"
)

// Costs are the times that a plan is based on.
type Costs interface {
	// Time is how long the matmul occupies the device when its queue is full.
	Time(device int, op hetero.Op) time.Duration
	// Start is the extra time on an idle device: the delay until the matmul begins
	// and until the host sees its completion.
	Start(device int) time.Duration
	// Slowdown is the factor by which a matmul takes longer while the other device
	// also works, because both use the same memory bandwidth.
	Slowdown(op hetero.Op) float64
}

// Inputs returns operands for measuring a matmul on a device, and sets op.Weights to
// variant i of the weights. others is the number of variants. Consecutive matmuls use
// different variants, so that no cache holds their weights.
type Inputs func(device int, op *hetero.Op, i int) (x, y hetero.View, others int)

// Profiler measures each matmul when it is first queried. It is not safe for
// concurrent use.
type Profiler struct {
	// Repeats is how often each matmul is measured on real devices, after one
	// warm-up run of each kernel; the shortest time counts. 0 = once, which suits
	// simulators because their times do not vary.
	Repeats int
	// Before is called before each measurement. An error ends measuring and is
	// stored in Err. May be nil.
	Before func() error
	// Weights is the weight type of the measurements of Start and Copy.
	Weights quant.Type
	Runs    int // matmuls measured so far
	// Err is the first error. A matmul that exceeds a device's memory is not an error.
	Err error

	devices  []hetero.Device
	inputs   Inputs
	times    map[matmulKey]measured
	tooLarge map[matmulKey]bool // exceeds the device's memory
	slow     map[matmulKey]float64
	start    map[int]time.Duration // by device
	copies   map[int]time.Duration
}

// matmulKey identifies a matmul on a device; equal shapes take equal time.
type matmulKey struct {
	device             int
	typ                quant.Type
	tokens, rows, cols int
	streamed           bool
}

func keyOf(device int, op hetero.Op) matmulKey {
	return matmulKey{device, op.Type, op.Tokens, op.Rows, op.Cols, op.Streamed}
}

// measured is the time of one matmul on an idle device, and per matmul in a burst.
type measured struct{ alone, steady time.Duration }

// never is the time of a matmul that cannot be measured: the solver avoids it.
const never = 24 * time.Hour

// NewProfiler returns a profiler of the devices. inputs may be nil for simulators that
// compute nothing.
func NewProfiler(devices []hetero.Device, inputs Inputs) *Profiler {
	return &Profiler{
		devices: devices, inputs: inputs,
		times: map[matmulKey]measured{}, tooLarge: map[matmulKey]bool{}, slow: map[matmulKey]float64{},
		start: map[int]time.Duration{}, copies: map[int]time.Duration{},
	}
}

const (
	// burst is the number of matmuls that a measurement queues to hide the start
	// latency.
	burst = 4
	// maxMeasure bounds the time of measuring one matmul; one run is always made.
	maxMeasure = 200 * time.Millisecond
	// ProbeSide is the size of the square matrices of the Profiler's own measurements on
	// real devices.
	ProbeSide = 2048
	// startTokens and rateTokens are the tokens of such matmuls.
	startTokens, rateTokens = 32, 512
	// startRepeats multiplies Repeats for measurements of the start latency.
	startRepeats = 6
	// maxVariants bounds the number of kernels with different weights, see Inputs.
	maxVariants = 16
)

// Time measures a matmul. It returns 24 hours after an error, which Err holds, and
// for a matmul that exceeds the device's memory.
func (p *Profiler) Time(device int, op hetero.Op) time.Duration {
	return p.measure(device, op).steady
}

func (p *Profiler) measure(device int, op hetero.Op) measured {
	key := keyOf(device, op)
	if a, known := p.times[key]; known {
		return a
	}
	if p.tooLarge[key] {
		return measured{never, never}
	}
	t, err := p.run(op, p.Repeats, device)
	if hetero.IsOutOfMemory(err) {
		p.tooLarge[key] = true
		return measured{never, never}
	}
	if err != nil {
		p.Err = err
		return measured{never, never}
	}
	a := measured{t.one, (t.burst - t.one) / burst}
	p.times[key] = a
	p.Runs++
	return a
}

// probeSize is the size of the square matrices of the profiler's own measurements;
// on real devices it is smaller to save time.
func (p *Profiler) probeSize() int {
	if p.Repeats > 0 {
		return ProbeSide
	}
	return 2 * ProbeSide
}

// startOp returns a matmul that takes longer than a call of Submit.
func (p *Profiler) startOp() hetero.Op {
	return hetero.Op{Tokens: startTokens, Rows: p.probeSize(), Cols: p.probeSize(), Type: p.Weights, Streamed: true}
}

// Start measures the start latency.
func (p *Profiler) Start(device int) time.Duration {
	if s, known := p.start[device]; known {
		return s
	}
	op := p.startOp()
	if p.Repeats == 0 {
		a := p.measure(device, op)
		p.start[device] = max(0, a.alone-a.steady)
		return p.start[device]
	}
	// The result is the small difference of two times, so the profiler measures a
	// shorter matmul more often.
	op.Rows /= 4
	t, err := p.run(op, startRepeats*p.Repeats, device)
	if err != nil {
		p.Err = err
		return never
	}
	p.start[device] = max(0, t.one-(t.burst-t.one)/burst)
	return p.start[device]
}

// Copy returns the time of one copy to or from a device without shared memory, and
// 0 if all devices share memory.
func (p *Profiler) Copy() time.Duration {
	most := time.Duration(0)
	for d, device := range p.devices {
		if device.Capabilities().SharesMemory {
			continue
		}
		took, known := p.copies[d]
		if !known {
			var err error
			if took, err = p.measureCopy(d); err != nil {
				p.Err = err
				return never
			}
			p.copies[d] = took
		}
		most = max(most, took)
	}
	return most
}

// measureCopy flushes and fetches an output of the usual size.
func (p *Profiler) measureCopy(device int) (time.Duration, error) {
	if p.inputs == nil {
		return 0, errors.New("solve: measuring copies needs buffers")
	}
	op := p.startOp()
	_, y, _ := p.inputs(device, &op, 0)
	clock := p.devices[device].Clock()
	least := never
	for range max(1, p.Repeats) {
		begin := clock.Now()
		if err := errors.Join(p.devices[device].Flush(y.Buffer), p.devices[device].Fetch(y.Buffer)); err != nil {
			return 0, err
		}
		least = min(least, (clock.Now()-begin)/2)
	}
	return least, nil
}

// Slowdown runs the matmul on both devices at once and compares the times with those
// on each device alone.
func (p *Profiler) Slowdown(op hetero.Op) float64 {
	key := keyOf(-1, op)
	if s, known := p.slow[key]; known {
		return s
	}
	alone := time.Duration(0)
	all := make([]int, len(p.devices))
	for d := range p.devices {
		all[d] = d
		t, err := p.run(op, p.Repeats, d)
		if hetero.IsOutOfMemory(err) {
			p.slow[key] = 1 // they never run it at the same time
			return 1
		}
		if err != nil {
			p.Err = err
			return 1
		}
		alone = max(alone, t.burst)
	}
	both, err := p.run(op, p.Repeats, all...)
	if err != nil {
		p.Err = err
		return 1
	}
	p.slow[key] = max(1, both.burst.Seconds()/alone.Seconds())
	return p.slow[key]
}

// burstTimes are the times of one matmul and of 1+burst in a row.
type burstTimes struct{ one, burst time.Duration }

// run measures a matmul on several devices at once.
func (p *Profiler) run(op hetero.Op, repeats int, devices ...int) (burstTimes, error) {
	if p.Err != nil {
		return burstTimes{}, p.Err
	}
	if p.Before != nil {
		if err := p.Before(); err != nil {
			return burstTimes{}, err
		}
	}
	r := &measurement{clock: p.devices[devices[0]].Clock()}
	defer r.close()
	if err := r.prepare(p, op, devices); err != nil {
		return burstTimes{}, err
	}
	if repeats == 0 {
		return r.once()
	}
	if err := r.warm(); err != nil {
		return burstTimes{}, err
	}
	best, err := r.once()
	for begin := r.clock.Now(); r.runs < repeats && r.clock.Now()-begin < maxMeasure; {
		t, again := r.once()
		best, err = burstTimes{min(best.one, t.one), min(best.burst, t.burst)}, errors.Join(err, again)
	}
	if best.burst <= best.one { // every single run was disturbed
		best.one = best.burst / (1 + burst)
	}
	return best, err
}
