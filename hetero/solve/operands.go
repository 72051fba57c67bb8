package solve

import (
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/tiering"
)

const (
	// ColdBytes is the size of the memory from which consecutive matmuls read
	// their weights. It exceeds most caches.
	ColdBytes = 64 << 20
	// weightAlign aligns the weights of different matmuls.
	weightAlign = 64
	// filler is the value of all weight bytes: scales made of it are normal numbers
	// in every format.
	filler = 0x3c
)

// Operands are memory for measured matmuls: dummy weights, an input that all
// devices read, and an output per device.
type Operands struct {
	budget  *tiering.Budget
	frame   *tiering.Frame // weights
	pool    *hetero.BufferPool
	x       *hetero.Buffer
	outputs []*hetero.Buffer // [devices]
}

// NewOperands allocates memory for the largest of the matmuls and for a Profiler's own
// measurements. The weights take at least the bytes cold: ColdBytes, or 0 if memory is
// scarce. Call CloseAfter on the result even after an error: devices may have buffers
// attached.
func NewOperands(budget *tiering.Budget, devices []hetero.Device, ops []hetero.Op, cold int) (*Operands, error) {
	weights, activations := cold, 0
	for _, op := range ops {
		rowBytes, err := op.Type.RowBytes(op.Cols)
		if err != nil {
			return nil, fmt.Errorf("solve: matmul of %d × %d × %d: %w", op.Tokens, op.Rows, op.Cols, err)
		}
		probe, err := op.Type.RowBytes(ProbeSide)
		if err != nil {
			return nil, fmt.Errorf("solve: %d columns: %w", ProbeSide, err)
		}
		weights = max(weights, op.Rows*rowBytes, ProbeSide*probe)
		activations = max(activations, op.Tokens*max(op.Rows, op.Cols), max(op.Tokens, startTokens)*ProbeSide)
	}
	if cold > 0 {
		activations = max(activations, rateTokens*ProbeSide)
	}
	o := &Operands{budget: budget}
	err := o.allocateWeights(weights)
	if err != nil {
		return nil, err
	}
	if o.pool, err = hetero.NewBufferPool(budget, 1+len(devices), 4*activations, devices...); err != nil {
		return o, err
	}
	o.x = o.pool.Take()
	for i := range o.x.Floats() {
		o.x.Floats()[i] = float32(i%17) - 8
	}
	for _, d := range devices {
		o.outputs = append(o.outputs, o.pool.Take())
		if err := d.Flush(o.x); err != nil {
			return o, err
		}
	}
	return o, nil
}

// allocateWeights allocates the weights.
func (o *Operands) allocateWeights(bytes int) (err error) {
	if o.frame, err = tiering.Alloc(o.budget, tiering.Scratch, bytes); err != nil {
		return err
	}
	memory := o.frame.Bytes()
	memory[0] = filler
	for n := 1; n < len(memory); n *= 2 {
		copy(memory[n:], memory[:n])
	}
	return nil
}

// Enlarge gives the weights ColdBytes, if they have less. No kernel may be open.
func (o *Operands) Enlarge() error {
	if len(o.frame.Bytes()) >= ColdBytes {
		return nil
	}
	o.frame.Free()
	o.frame = nil
	return o.allocateWeights(ColdBytes)
}

// For is the Inputs function of a Profiler of the same devices.
func (o *Operands) For(device int, op *hetero.Op, i int) (x, y hetero.View, others int) {
	rowBytes, err := op.Type.RowBytes(op.Cols)
	if err != nil {
		return x, y, 1 // Prepare rejects it
	}
	size := op.Rows * rowBytes
	step := (size + weightAlign - 1) / weightAlign * weightAlign
	memory := o.frame.Bytes()
	others = max(1, len(memory)/step)
	if size <= len(memory) {
		op.Weights = memory[i%others*step:][:size:size]
	}
	return hetero.View{Buffer: o.x, Stride: op.Cols}, hetero.View{Buffer: o.outputs[device], Stride: op.Rows}, others
}

// CloseAfter closes devices and then frees the memory that was attached to them. o
// may be nil.
func (o *Operands) CloseAfter(devices []hetero.Device) (err error) {
	for _, d := range devices {
		err = errors.Join(err, d.Close())
	}
	if o != nil {
		o.pool.Close()
		if o.frame != nil {
			o.frame.Free()
		}
	}
	return err
}
