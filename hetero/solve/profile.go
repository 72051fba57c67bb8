package solve

import (
	"time"

	"github.com/llmrun/llmrun/hetero"
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

// Inputs returns operands for a product that is to be measured, with weights.
type Inputs func(op *hetero.Op) (x, y hetero.View, err error)

// Profiler measures products by running them, each the first time that it is
// asked for. It must not be used from several goroutines.
type Profiler struct {
	devices []hetero.Device
	inputs  Inputs
	times   map[question]answer
	slow    map[question]float64
	start   map[int]time.Duration
	Runs    int // products that were measured
	Err     error
}

// question is a product on a device; two of the same shape take the same time.
type question struct {
	device, tokens, rows, cols int
	streamed                   bool
}

// answer is what one and many in a row took, for each.
type answer struct{ alone, steady time.Duration }

// NewProfiler measures on these devices. inputs is nil for simulators that
// charge time only.
func NewProfiler(devices []hetero.Device, inputs Inputs) *Profiler {
	return &Profiler{devices: devices, inputs: inputs, times: map[question]answer{}, slow: map[question]float64{}, start: map[int]time.Duration{}}
}

// inRow is how many products are queued to hide how long one takes to begin.
const inRow = 4

// Time measures a product. After an error, which Err keeps, it is a day.
func (p *Profiler) Time(device int, op hetero.Op) time.Duration {
	return p.measure(device, op).steady
}

func (p *Profiler) measure(device int, op hetero.Op) answer {
	key := question{device, op.Tokens, op.Rows, op.Cols, op.Streamed}
	if a, known := p.times[key]; known {
		return a
	}
	a := answer{24 * time.Hour, 24 * time.Hour}
	if one, err := p.run(op, 1, device); err != nil {
		p.Err = err
	} else if many, err := p.run(op, 1+inRow, device); err != nil {
		p.Err = err
	} else {
		a = answer{one, (many - one) / inRow}
	}
	p.times[key] = a
	p.Runs++
	return a
}

// startOp is large enough for a device to be busy longer than a submit takes.
var startOp = hetero.Op{Tokens: 32, Rows: 4096, Cols: 4096, Streamed: true}

// Start measures what beginning costs.
func (p *Profiler) Start(device int) time.Duration {
	if s, known := p.start[device]; known {
		return s
	}
	a := p.measure(device, startOp)
	p.start[device] = max(0, a.alone-a.steady)
	return p.start[device]
}

// Slowdown runs the product on both devices at once, over and over, and
// compares with each alone.
func (p *Profiler) Slowdown(op hetero.Op) float64 {
	key := question{-1, op.Tokens, op.Rows, op.Cols, op.Streamed}
	if s, known := p.slow[key]; known {
		return s
	}
	alone := time.Duration(0)
	for d := range p.devices {
		t, err := p.run(op, 1+inRow, d)
		if err != nil {
			p.Err = err
			return 1
		}
		alone = max(alone, t)
	}
	all := make([]int, len(p.devices))
	for d := range all {
		all[d] = d
	}
	both, err := p.run(op, 1+inRow, all...)
	if err != nil {
		p.Err = err
		return 1
	}
	p.slow[key] = max(1, both.Seconds()/alone.Seconds())
	return p.slow[key]
}

// run returns how long so many products take on each of some devices at once.
func (p *Profiler) run(op hetero.Op, times int, devices ...int) (time.Duration, error) {
	var kernels []hetero.Kernel
	defer func() {
		for _, k := range kernels {
			_ = k.Close()
		}
	}()
	var x, y hetero.View
	if p.inputs != nil {
		var err error
		if x, y, err = p.inputs(&op); err != nil {
			return 0, err
		}
	}
	for _, d := range devices {
		k, err := p.devices[d].Prepare(op)
		if err != nil {
			return 0, err
		}
		kernels = append(kernels, k)
	}
	clock := p.devices[devices[0]].Clock()
	begin := clock.Now()
	var last []hetero.Ticket
	for i := range times {
		for _, k := range kernels {
			t, err := k.Submit(x, y)
			if err != nil {
				return 0, err
			}
			if i == times-1 {
				last = append(last, t)
			}
		}
	}
	for _, t := range last {
		for !t.Done() {
		}
	}
	return clock.Now() - begin, nil
}
