package exec

import (
	"errors"
	"fmt"
	"time"

	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/internal/trace"
	"github.com/llmrun/llmrun/tiering"
)

// Split has part of a model's products computed by another device, at the same
// time as the rest of them: the first rows of a matrix are multiplied here, and the
// others there. All that is no product stays here.
//
// The device's rows are in its memory and not in the model's. Logits are not those
// of this package's kernels alone: each device rounds in its own way, and how many
// tokens are read together may change who computes what.
type Split struct {
	Name   string        // of the device, for errors
	Device hetero.Device // closed with the model, also with one that cannot be loaded
	// Of says which rows of a matrix the device has. It is asked for those that are
	// Divisible; the others stay here.
	Of    func(weights.Product) weights.Share
	Chunk int             // most tokens in one pass that Of was made for; 0: any number
	Grain time.Duration   // see hetero.Await
	Trace *trace.Recorder // of steps; may be nil
}

// offloadDevice is the device that has rows of a model's matrices.
type offloadDevice struct {
	Split
	caps    hetero.Capabilities
	chunk   int // tokens that kernels are prepared for
	kernels []hetero.Kernel
	roles   []*weights.DividedProduct // in the order of loading
}

// allOffloaded reports whether another device multiplies all rows of the job's matrix.
func (j *matmul) allOffloaded() bool { return j.w.Offload != nil && j.w.Offload.First(j.n) == 0 }

// residentRows returns how many rows of the job's matrix in memory this package's kernels
// multiply.
func (j *matmul) residentRows() int {
	if j.w.Offload != nil {
		return j.w.Offload.First(j.n)
	}
	return j.w.Held()
}

// close closes the device of a division that no model has taken over.
func (d *Split) close() error {
	if d == nil {
		return nil
	}
	return d.Device.Close()
}

// newOffloadDevice takes over the device of a division.
func newOffloadDevice(d *Split, chunk int) *offloadDevice {
	return &offloadDevice{Split: *d, caps: d.Device.Capabilities(), chunk: chunk}
}

// predicted returns how long a product of so many tokens will take. A device that is
// static needs for its rows of any number of them what it needs for a chunk.
func (a *offloadDevice) predicted(w *weights.OffloadedRows, tokens int) time.Duration {
	switch {
	case !w.Batched(tokens):
		return w.OneTime
	case a.caps.Static && w.Many < w.Role.Rows:
		return w.ManyTime
	}
	return w.ManyTime * time.Duration(tokens) / time.Duration(a.chunk)
}

// attach makes a pass's memory the device's.
func (a *offloadDevice) attach(frame *tiering.Frame) (*hetero.Buffer, error) {
	b := hetero.WrapFrame(frame)
	if err := a.Device.Attach(b); err != nil {
		return nil, fmt.Errorf("%s: %w", a.Name, err)
	}
	return b, nil
}

// prepare gives the device its rows of a matrix. Of raw it keeps what it says that
// it needs; inPlace is asked for memory that stays.
func (a *offloadDevice) prepare(op hetero.Op, share weights.Share, inPlace func(raw []byte) ([]byte, error)) (parts [2]weights.OffloadedPart, err error) {
	rowBytes := len(op.Weights) / op.Rows
	for i, rows := range share.Parts(op.Rows) {
		parts[i] = weights.OffloadedPart{First: rows[0], Rows: rows[1] - rows[0]}
		if parts[i].Rows == 0 {
			continue
		}
		part := op
		part.Rows, part.Weights = parts[i].Rows, op.Weights[rows[0]*rowBytes:rows[1]*rowBytes]
		if parts[i].Kernel, err = a.prepareRows(part, inPlace); err != nil {
			return parts, fmt.Errorf("%s: %w", a.Name, err)
		}
		a.kernels = append(a.kernels, parts[i].Kernel)
	}
	return parts, nil
}

func (a *offloadDevice) prepareRows(op hetero.Op, inPlace func(raw []byte) ([]byte, error)) (hetero.Kernel, error) {
	k, err := a.Device.Prepare(op)
	if err != nil || k.Bytes() > 0 {
		return k, err
	}
	// It reads the weights where they are, which is not where they will be.
	if err := k.Close(); err != nil {
		return nil, err
	}
	if op.Weights, err = inPlace(op.Weights); err != nil {
		return nil, err
	}
	return a.Device.Prepare(op)
}

// submit starts a product of some tokens.
func (a *offloadDevice) submit(k hetero.Kernel, tokens int, x, y hetero.View) (hetero.Ticket, error) {
	if some, ok := k.(hetero.Elastic); ok && !a.caps.Static {
		return some.SubmitSome(tokens, x, y)
	}
	return k.Submit(x, y) // the rest of the chunk is whatever is there, and is not used
}

// close gives kernels and the device back.
func (a *offloadDevice) close() (err error) {
	for _, k := range a.kernels {
		err = errors.Join(err, k.Close())
	}
	a.kernels = nil
	return errors.Join(err, a.Device.Close())
}
