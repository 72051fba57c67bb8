package solve

import (
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/tiering"
)

const (
	// coldBytes is the size of the memory from which consecutive matmuls read
	// their weights. It exceeds most caches and suffices for a Profiler's own
	// measurements in any type.
	coldBytes = 64 << 20
	// weightAlign aligns the weights of different matmuls.
	weightAlign = 64
	// filler is the value of all weight bytes: scales made of it are normal numbers
	// in every format.
	filler = 0x3c
)

// Operands are memory for measured matmuls: dummy weights, an input that all
// devices read, and an output per device.
type Operands struct {
	frame   *tiering.Frame // weights
	pool    *hetero.BufferPool
	x       *hetero.Buffer
	outputs []*hetero.Buffer // [devices]
}

// NewOperands allocates memory for the largest of the matmuls and for the
// Profiler's and Predictor's own measurements. Call CloseAfter on the result even
// after an error: devices may have buffers attached.
func NewOperands(budget *tiering.Budget, devices []hetero.Device, ops []hetero.Op) (*Operands, error) {
	weights, activations := coldBytes, 0
	for _, op := range ops {
		rowBytes, err := op.Type.RowBytes(op.Cols)
		if err != nil {
			return nil, fmt.Errorf("solve: matmul of %d × %d × %d: %w", op.Tokens, op.Rows, op.Cols, err)
		}
		weights = max(weights, op.Rows*rowBytes)
		activations = max(activations, op.Tokens*max(op.Rows, op.Cols), 512*2048)
	}
	frame, err := tiering.Alloc(budget, tiering.Scratch, weights)
	if err != nil {
		return nil, err
	}
	o := &Operands{frame: frame}
	memory := frame.Bytes()
	memory[0] = filler
	for n := 1; n < len(memory); n *= 2 {
		copy(memory[n:], memory[:n])
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
		o.frame.Free()
	}
	return err
}
