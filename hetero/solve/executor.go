package solve

import (
	"errors"
	"slices"
	"time"

	"github.com/llmrun/llmrun/hetero"
)

// Executor runs split matmuls on two devices of one machine. One goroutine at a time
// may call its methods.
type Executor struct {
	Devices [2]hetero.Device
	// Costs predicts completion times. It must already have the time of every piece,
	// as the Profiler of the plan does, so that Submit does not measure.
	Costs Costs
	// Grain is the shortest sleep of the system, see hetero.Grain. With Fast, the
	// executor sleeps until just before the predicted completion and then polls;
	// otherwise it waits in the driver.
	Grain time.Duration
	Fast  bool

	kernels map[pieceKey]hetero.Kernel
	begun   [2]hetero.Ticket // the last ticket of each device, nil if it is done
}

// pieceKey identifies a kernel by the matmul's name and the piece.
type pieceKey struct {
	name  string
	piece Piece
}

// Pending is submitted work that operations on the other device must wait for.
type Pending struct {
	Device int
	Ticket hetero.Ticket
	At     time.Duration // predicted completion
	// The output: Tokens rows of Rows elements each.
	Y            hetero.View
	Tokens, Rows int
}

// Prepare prepares the kernels of a split, in its operand order.
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

// Tolerance returns the largest tolerance of a prepared split's kernels.
func (e *Executor) Tolerance(name string, split *Split) float64 {
	largest := 0.0
	for _, p := range split.Pieces {
		largest = max(largest, e.kernels[pieceKey{name, p}].Tolerance())
	}
	return largest
}

// Close waits for submitted work and closes all kernels.
func (e *Executor) Close() error {
	err := e.drain()
	for _, k := range e.kernels {
		err = errors.Join(err, k.Close())
	}
	e.kernels = nil
	return err
}

// drain waits for all submitted work. Before that, devices may write to the operands,
// and kernels cannot be closed.
func (e *Executor) drain() (err error) {
	for d, t := range e.begun {
		if t != nil {
			err = errors.Join(err, t.Wait())
		}
		e.begun[d] = nil
	}
	return err
}

// Submit starts a prepared matmul. after is the work that the matmul depends on; the
// result is the work that Submit has started. The queue of a device orders the work of
// that device; for work of the other device Submit waits on the host.
//
// For one token, Submit starts the pieces of device 0 first, because its queue still
// holds earlier work. Otherwise it starts those of device 1 first, because device 1
// has more work.
//
// After an error no work is pending.
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

// Before waits until a device may start work that depends on the work after. It
// returns at once if the split has no piece for the device; a nil split stands for any
// work of the device. Before preserves rows that the device wrote and that the host has
// not fetched. After an error no work is pending.
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
		if !slices.ContainsFunc(others[:i], sameResult) { // one fetch covers all pieces of a result
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

// Await waits for pending work, by polling or in the driver.
func (e *Executor) Await(p Pending) error {
	if !e.Fast {
		return p.Ticket.Wait()
	}
	return hetero.Await(e.Devices[p.Device].Clock(), p.Ticket, p.At, e.Grain)
}
