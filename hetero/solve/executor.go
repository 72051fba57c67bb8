package solve

import (
	"errors"
	"slices"
	"time"

	"github.com/llmrun/llmrun/hetero"
)

// Executor runs products as they were split, on two devices of one machine.
type Executor struct {
	Devices [2]hetero.Device
	// Costs say when work will be done. They must know every piece already, as a
	// Profiler does that the plan was made with: this is no time to measure.
	Costs Costs
	// Grain is the shortest sleep of the system. Fast waits by prediction and
	// flags; without it the driver's way of waiting is used.
	Grain time.Duration
	Fast  bool

	kernels map[pieceKey]hetero.Kernel
	begun   [2]hetero.Ticket // of each device the last, if it may not be done
}

// pieceKey names a kernel: products of the same name and piece are the same.
type pieceKey struct {
	name  string
	piece Piece
}

// Pending is work that an operation has to wait for if it runs elsewhere.
type Pending struct {
	Device int
	Ticket hetero.Ticket
	At     time.Duration // when it is predicted to be done
	// What it writes: so many rows of a matrix, of so many numbers each.
	Y            hetero.View
	Tokens, Rows int
}

// Prepare makes the kernels of a split ready, with the order of operands that it
// was made for.
func (e *Executor) Prepare(name string, op hetero.Op, split *Split) error {
	if e.kernels == nil {
		e.kernels = map[pieceKey]hetero.Kernel{}
	}
	for _, p := range split.Pieces {
		key := pieceKey{name, p}
		if e.kernels[key] != nil {
			continue
		}
		op.Streamed = split.Streamed
		k, err := e.Devices[p.Device].Prepare(p.Op(op))
		if err != nil {
			return err
		}
		e.kernels[key] = k
	}
	return nil
}

// Tolerance returns the largest of the kernels of a prepared split.
func (e *Executor) Tolerance(name string, split *Split) float64 {
	largest := 0.0
	for _, p := range split.Pieces {
		largest = max(largest, e.kernels[pieceKey{name, p}].Tolerance())
	}
	return largest
}

// Close waits for what was begun and closes all kernels.
func (e *Executor) Close() error {
	err := e.drain()
	for _, k := range e.kernels {
		err = errors.Join(err, k.Close())
	}
	e.kernels = nil
	return err
}

// drain waits for all that was begun: devices write to the operands until then, and
// their kernels cannot be closed.
func (e *Executor) drain() (err error) {
	for d, t := range e.begun {
		if t != nil {
			err = errors.Join(err, t.Wait())
		}
		e.begun[d] = nil
	}
	return err
}

// Submit starts a prepared product after what it depends on and returns what
// depends on it. A device waits for its own work by the order of its queue; the
// host waits for other devices' work.
//
// For one token device 0 gets its part first, because its queue still holds the
// work before; otherwise device 1 does, because it has most to do.
//
// With an error nothing is under way any more.
func (e *Executor) Submit(name string, op hetero.Op, split *Split, x, y hetero.View, after []Pending) ([]Pending, error) {
	op.Streamed = split.Streamed
	order := [2]int{1, 0}
	if op.Tokens == 1 {
		order = [2]int{0, 1}
	}
	var begun []Pending
	for _, device := range order {
		if err := e.Before(device, split, after); err != nil {
			return nil, err
		}
		for _, p := range split.Pieces {
			if p.Device != device {
				continue
			}
			to := y.At(p.Token, p.Row)
			t, err := e.kernels[pieceKey{name, p}].Submit(x.At(p.Token, 0), to)
			if err != nil {
				return nil, errors.Join(err, e.drain())
			}
			e.begun[device] = t
			at := e.Devices[device].Clock().Now() + e.Costs.Start(device) + e.Costs.Time(device, p.Op(op))
			begun = append(begun, Pending{Device: device, Ticket: t, At: at, Y: to, Tokens: p.Tokens, Rows: p.Rows})
		}
	}
	return begun, nil
}

// Before waits until a device may begin what depends on earlier work, if the
// split gives it a piece; a nil split stands for any work of the device. Beside the
// rows that others wrote the device may have written some of its own, which nobody
// has fetched: those stay. With an error nothing is under way any more.
func (e *Executor) Before(device int, split *Split, after []Pending) error {
	if err := e.before(device, split, after); err != nil {
		return errors.Join(err, e.drain())
	}
	return nil
}

func (e *Executor) before(device int, split *Split, after []Pending) error {
	if split != nil && !uses(split, device) {
		return nil
	}
	others := slices.DeleteFunc(slices.Clone(after), func(p Pending) bool { return p.Device == device })
	for _, p := range others {
		if err := e.Await(p); err != nil {
			return err
		}
	}
	for i, p := range others {
		sameResult := func(q Pending) bool { return q.Y.Buffer == p.Y.Buffer }
		if !slices.ContainsFunc(others[:i], sameResult) { // all pieces of one come at once
			if err := e.Devices[p.Device].Fetch(p.Y.Buffer); err != nil {
				return err
			}
		}
		if err := e.Devices[device].FlushRows(p.Y, p.Tokens, p.Rows); err != nil {
			return err
		}
	}
	return nil
}

func uses(s *Split, device int) bool {
	for _, p := range s.Pieces {
		if p.Device == device {
			return true
		}
	}
	return false
}

// Await waits for work, in the executor's way.
func (e *Executor) Await(p Pending) error {
	if !e.Fast {
		return p.Ticket.Wait()
	}
	return hetero.Await(e.Devices[p.Device].Clock(), p.Ticket, p.At, e.Grain)
}
