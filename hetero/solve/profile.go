package solve

import (
	"errors"
	"time"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/quant"
)

// Costs says how long products take on the devices of a plan.
type Costs interface {
	// Time is how long the product keeps the device busy when its queue is full.
	Time(device int, op hetero.Op) time.Duration
	// Start is how much longer one takes that begins on an idle device: until it
	// begins, and until the host knows that it has ended.
	Start(device int) time.Duration
	// Slowdown is how many times longer a product takes while the other device
	// works too: what sharing the memory costs.
	Slowdown(op hetero.Op) float64
}

// Inputs returns operands for a product that is to be measured on a device, and
// gives it weights: others for each i below the number that it returns, so that
// products in a row do not find them in a cache.
type Inputs func(device int, op *hetero.Op, i int) (x, y hetero.View, others int)

// Profiler measures products by running them, each the first time that it is
// asked for. It must not be used from several goroutines.
type Profiler struct {
	// Repeats is how often each product is measured on devices whose time is real,
	// after each of its kernels ran once for nothing; the shortest time counts. 0 =
	// once, as suits simulators, which take the same time always.
	Repeats int
	// Before is asked before each product is measured; an error ends measuring, and
	// Err keeps it. nil = nobody is.
	Before func() error
	// Weights is the type for what the profiler asks itself; the other questions
	// name their own.
	Weights quant.Type
	Runs    int // products that were measured
	// Err is the first error. That a device has no memory for a product is none.
	Err error

	devices  []hetero.Device
	inputs   Inputs
	times    map[matmulKey]measured
	tooLarge map[matmulKey]bool // there was no memory for it
	slow     map[matmulKey]float64
	start    map[int]time.Duration // by device
	copies   map[int]time.Duration
}

// matmulKey is a product on a device; two of the same shape take the same time.
type matmulKey struct {
	device             int
	typ                quant.Type
	tokens, rows, cols int
	streamed           bool
}

func keyOf(device int, op hetero.Op) matmulKey {
	return matmulKey{device, op.Type, op.Tokens, op.Rows, op.Cols, op.Streamed}
}

// measured is what one and many in a row took, for each.
type measured struct{ alone, steady time.Duration }

// never is the time of what could not be measured: nobody will choose it.
const never = 24 * time.Hour

// NewProfiler measures on these devices. inputs is nil for simulators that
// charge time only.
func NewProfiler(devices []hetero.Device, inputs Inputs) *Profiler {
	return &Profiler{
		devices: devices, inputs: inputs,
		times: map[matmulKey]measured{}, tooLarge: map[matmulKey]bool{}, slow: map[matmulKey]float64{},
		start: map[int]time.Duration{}, copies: map[int]time.Duration{},
	}
}

const (
	// burst is how many products are queued to hide how long one takes to begin.
	burst = 4
	// maxMeasure is how long one product is measured at most, but once in any case.
	maxMeasure = 200 * time.Millisecond
	// startRepeats is how much more often the beginning is measured than products.
	startRepeats = 6
	// maxVariants is how many kernels are prepared, so that each multiplies weights
	// that were not used lately.
	maxVariants = 16
)

// Time measures a product. After an error, which Err keeps, it is a day, and so it is
// for a device that has no memory for it.
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

// probeSize is the size of square matrices that a profiler asks itself about, on
// simulated devices and on real ones, where less time is spent on it.
func (p *Profiler) probeSize() int {
	if p.Repeats > 0 {
		return 2048
	}
	return 4096
}

// startOp is large enough for a device to be busy longer than a submit takes.
func (p *Profiler) startOp() hetero.Op {
	return hetero.Op{Tokens: 32, Rows: p.probeSize(), Cols: p.probeSize(), Type: p.Weights, Streamed: true}
}

// Start measures what beginning costs.
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
	// It is a small difference of two times: a shorter product, and more often.
	op.Rows /= 4
	t, err := p.run(op, startRepeats*p.Repeats, device)
	if err != nil {
		p.Err = err
		return never
	}
	p.start[device] = max(0, t.one-(t.burst-t.one)/burst)
	return p.start[device]
}

// Copy returns what one copy takes between devices that do not share memory, and
// 0 where all do.
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
		return 0, errors.New("solve: copies are measured with buffers only")
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

// Slowdown runs the product on both devices at once, over and over, and
// compares with each alone.
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
			p.slow[key] = 1 // the two never have it at once
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

// burstTimes is how long one product and 1+burst in a row take.
type burstTimes struct{ one, burst time.Duration }

// run returns how long products take on each of some devices at once.
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
	if best.burst <= best.one { // who measured one was kept from it each time
		best.one = best.burst / (1 + burst)
	}
	return best, err
}
