package solve

import (
	"errors"
	"time"

	"github.com/llmrun/llmrun/hetero"
)

// measurement is the state of measuring one matmul: on each device, kernels with
// different weights.
type measurement struct {
	clock   hetero.Clock
	kernels [][]hetero.Kernel // [devices][variants]
	x, y    []hetero.View     // [devices]
	next    int               // index of the next kernel
	runs    int
	last    []hetero.Ticket // [devices], nil: nothing submitted
	// blocks selects for each device a wait in the driver instead of polling.
	// Polling would take a core from a device that computes on the CPU.
	blocks []bool
}

func (r *measurement) prepare(p *Profiler, op hetero.Op, devices []int) error {
	r.kernels = make([][]hetero.Kernel, len(devices))
	r.x, r.y = make([]hetero.View, len(devices)), make([]hetero.View, len(devices))
	for i, d := range devices {
		caps := p.devices[d].Capabilities()
		r.blocks = append(r.blocks, caps.Kind == hetero.CPU && !caps.Simulated)
		others := 1
		for n := 0; n < others; n++ {
			if p.inputs != nil {
				r.x[i], r.y[i], others = p.inputs(d, &op, n)
			}
			if others = min(others, maxVariants); caps.Static {
				others = 1 // preparing takes long
			}
			k, err := p.devices[d].Prepare(op)
			if n > 0 && hetero.IsOutOfMemory(err) {
				break // fewer variants suffice
			}
			if err != nil {
				return err
			}
			r.kernels[i] = append(r.kernels[i], k)
		}
	}
	return nil
}

// Occupy takes the memory that measuring matmuls takes, on each device and on all at once, one measurement
// after the other, so that the ledger shows their peak. It computes nothing.
func (p *Profiler) Occupy(ops []hetero.Op) error {
	all := make([]int, len(p.devices))
	for d := range p.devices {
		all[d] = d
	}
	for _, op := range ops {
		for d := range p.devices {
			if err := p.occupy(op, d); err != nil {
				return err
			}
		}
		op.Rows, op.Cols = p.probeSize(), p.probeSize() // as Predictor.Slowdown
		if err := p.occupy(op, all...); err != nil {
			return err
		}
	}
	return nil
}

// occupy takes the memory of one measurement. A matmul that exceeds a device's memory is not measured.
func (p *Profiler) occupy(op hetero.Op, devices ...int) error {
	r := &measurement{clock: p.devices[devices[0]].Clock()}
	defer r.close()
	if err := r.prepare(p, op, devices); !hetero.IsOutOfMemory(err) {
		return err
	}
	return nil
}

// drain waits for all submitted work, so that kernels can be closed.
func (r *measurement) drain() (err error) {
	for _, t := range r.last {
		if t != nil {
			err = errors.Join(err, t.Wait())
		}
	}
	return err
}

func (r *measurement) close() {
	for _, list := range r.kernels {
		_ = closeAll(list) // the measurement is complete
	}
}

func closeAll(list []hetero.Kernel) (err error) {
	for _, k := range list {
		err = errors.Join(err, k.Close())
	}
	return err
}

// warm runs every kernel once, because drivers postpone work to the first run. If
// matmuls take long, warm stops early and closes the kernels that it did not run; the
// measurement then uses fewer variants.
func (r *measurement) warm() error {
	most := 0
	for _, list := range r.kernels {
		most = max(most, len(list))
	}
	warmed := 0
	for begin := r.clock.Now(); warmed < most && (warmed == 0 || r.clock.Now()-begin < maxMeasure); warmed++ {
		if _, err := r.time(1); err != nil {
			return err
		}
	}
	for d, list := range r.kernels {
		n := min(warmed, len(list))
		r.kernels[d] = list[:n]
		if err := closeAll(list[n:]); err != nil {
			return err
		}
	}
	return nil
}

// once measures one matmul and a burst.
func (r *measurement) once() (t burstTimes, err error) {
	r.runs++
	if t.one, err = r.time(1); err == nil {
		t.burst, err = r.time(1 + burst)
	}
	return t, err
}

// time returns the time of n matmuls on each device.
func (r *measurement) time(n int) (time.Duration, error) {
	r.last = make([]hetero.Ticket, len(r.kernels))
	begin := r.clock.Now()
	for i := range n {
		for d, list := range r.kernels {
			t, err := list[(r.next+i)%len(list)].Submit(r.x[d], r.y[d])
			if err != nil {
				return 0, errors.Join(err, r.drain())
			}
			r.last[d] = t
		}
	}
	r.next += n
	var failed error // a failed matmul ends early: its time is meaningless
	for d, t := range r.last {
		if r.blocks[d] {
			failed = errors.Join(failed, t.Wait())
		} else {
			failed = errors.Join(failed, hetero.Await(r.clock, t, begin, 0))
		}
	}
	return r.clock.Now() - begin, failed
}
