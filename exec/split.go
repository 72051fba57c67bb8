package exec

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/internal/trace"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/tiering"
)

// Split offloads rows of a model's matmuls to another device. The CPU multiplies the first rows
// of a matrix, and the device multiplies the others at the same time. All other operations run
// on the CPU.
//
// The offloaded rows are in the device's memory only. A Plan is for the others; see
// ShapeOptions.RowsOf. Logits differ from those of the CPU's
// kernels: each device quantizes in its own way, and the number of tokens in a chunk may change
// which device computes a row.
type Split struct {
	Name   string        // name of the device, for errors
	Device hetero.Device // closed with the model, also if loading fails
	// RowsOf returns the rows of a matrix that the device computes. It is called for splittable
	// matrices; the CPU computes the others.
	RowsOf func(weights.Matmul) weights.RowSplit
	Chunk  int             // maximum tokens of a chunk for which RowsOf is valid; 0: any number
	Grain  time.Duration   // see hetero.Await
	Trace  *trace.Recorder // records steps; may be nil
}

// offloadDevice is the device that holds offloaded rows of a model's matrices.
type offloadDevice struct {
	Split
	caps    hetero.Capabilities
	chunk   int // tokens for which kernels are compiled
	kernels []hetero.Kernel
	stats   []*weights.SplitMatmul // in the order of loading
}

// allOffloaded reports whether another device computes all rows of the matmul.
func (mul *matmul) allOffloaded() bool {
	return mul.w.Offload != nil && mul.w.Offload.FirstRow(mul.n) == 0
}

// cpuRows returns how many rows of the matmul the CPU computes: the first ones.
func (mul *matmul) cpuRows() int {
	if mul.w.Offload != nil {
		return mul.w.Offload.FirstRow(mul.n)
	}
	return mul.w.Rows
}

// residentRows returns how many rows of the matmul the CPU computes from memory.
func (mul *matmul) residentRows() int {
	if mul.high {
		return mul.w.Rows // Draft has checked it
	}
	return min(mul.cpuRows(), mul.w.LastPlane().ResidentRows())
}

// close closes the device of a split whose model failed to load before newOffloadDevice.
func (d *Split) close() error {
	if d == nil {
		return nil
	}
	return d.Device.Close()
}

// newOffloadDevice wraps the device of a split. Its close method closes the device.
func newOffloadDevice(d *Split, chunk int) *offloadDevice {
	return &offloadDevice{Split: *d, caps: d.Device.Capabilities(), chunk: chunk}
}

// predicted returns the predicted time of a matmul with the given tokens. A static device takes
// the time of a whole chunk for any number of tokens.
func (a *offloadDevice) predicted(w *weights.OffloadedRows, tokens int) time.Duration {
	switch {
	case !w.Batched(tokens):
		return w.SingleTime
	case a.caps.Static && w.Batch < w.Matmul.Rows:
		return w.BatchTime
	}
	return w.BatchTime * time.Duration(tokens) / time.Duration(a.chunk)
}

// named returns an error of the device with its name.
func (d *Split) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", d.Name, err)
}

// attach attaches a pass's memory to the device.
func (a *offloadDevice) attach(frame *tiering.Frame) (*hetero.Buffer, error) {
	b := hetero.WrapFrame(frame)
	return b, a.named(a.Device.Attach(b))
}

// prepare compiles the device's kernels for its rows of a matrix, which are the weights of op. If a kernel reads the weights
// in place, copyWeights copies them to memory that lives as long as the model.
func (a *offloadDevice) prepare(op hetero.Op, split weights.RowSplit, copyWeights func(raw []byte) ([]byte, error)) (ranges [2]weights.OffloadedRange, err error) {
	least := min(split.Single, split.Batch) // the weights begin with this row
	if least == op.Rows {
		return ranges, nil
	}
	rowBytes := len(op.Weights) / (op.Rows - least)
	for i, rows := range split.RowRanges(op.Rows) {
		ranges[i] = weights.OffloadedRange{First: rows[0], Rows: rows[1] - rows[0]}
		if ranges[i].Rows == 0 {
			continue
		}
		part := op
		part.Rows, part.Weights = ranges[i].Rows, op.Weights[(rows[0]-least)*rowBytes:(rows[1]-least)*rowBytes]
		if ranges[i].Kernel, err = a.prepareRows(part, copyWeights); err != nil {
			return ranges, a.named(err)
		}
		a.kernels = append(a.kernels, ranges[i].Kernel)
	}
	return ranges, nil
}

// prepareRows compiles the kernel of one range of rows.
func (a *offloadDevice) prepareRows(op hetero.Op, copyWeights func(raw []byte) ([]byte, error)) (hetero.Kernel, error) {
	k, err := a.Device.Prepare(op)
	if err != nil || k.Bytes() > 0 {
		return k, err
	}
	// The kernel reads the weights in place, but raw memory is freed after loading.
	if err := k.Close(); err != nil {
		return nil, err
	}
	if op.Weights, err = copyWeights(op.Weights); err != nil {
		return nil, err
	}
	return a.Device.Prepare(op)
}

// submit submits a matmul of the given tokens.
func (a *offloadDevice) submit(k hetero.Kernel, tokens int, x, y hetero.View) (hetero.Ticket, error) {
	if elastic, ok := k.(hetero.Elastic); ok && !a.caps.Static {
		return elastic.SubmitSome(tokens, x, y)
	}
	return k.Submit(x, y) // it computes the whole chunk; the rows past tokens are ignored
}

// close closes the kernels and the device.
func (a *offloadDevice) close() (err error) {
	for _, k := range a.kernels {
		err = errors.Join(err, k.Close())
	}
	a.kernels = nil
	return errors.Join(err, a.Device.Close())
}

// splitLoader prepares a device's rows layout by layout, so that only one layout at a time is in
// memory twice. It reads the rows in the file's layout. The host's rows are loaded afterwards, as
// those of any model.
type splitLoader struct {
	*weights.Loader
	*offloadDevice
	// scales holds the per-tensor scale of each matrix's input, see Options.W8A8. Inputs without
	// an entry have no fixed scale.
	scales map[*weights.Linear]float32
}

// loadRows loads the device's rows. It returns the weights with these rows only, and the memory that
// kernels read in place, also after an error.
func (a *offloadDevice) loadRows(ctx context.Context, ts *modelfile.TensorSet, spec *arch.Spec, o *Options, scheduler *prefetch.Scheduler) (*weights.Weights, *weights.Loader, error) {
	ld := &weights.Loader{Tensors: ts, Spec: spec, Budget: o.Budget, Exact: true, Progress: o.Progress, Scheduler: scheduler}
	d := &splitLoader{Loader: ld, offloadDevice: a}
	w, layouts, err := ld.PlanHost(0)
	if err != nil {
		return nil, ld, err
	}
	for i := range layouts {
		layouts[i].Describe()
	}
	weights.OffloadRows(w, layouts, a.RowsOf)
	a.countStats(w, layouts)
	d.findScales(w, o.W8A8)
	rows := weights.DeviceRows(w, layouts)
	weights.KeepHostRows(w, layouts)
	ld.Total = weights.ReadBytes(layouts) // is read afterwards
	err = ld.LoadSequentially(ctx, rows, func(l *weights.Layout) error { return d.prepareLayout(l, w) })
	return w, ld, err
}

// findScales finds the scale of each matrix's input.
func (d *splitLoader) findScales(w *weights.Weights, o *W8A8) {
	scales := o.scales()
	d.scales = map[*weights.Linear]float32{}
	for l := range w.Layers {
		w.Layers[l].Each(func(role string, m *weights.Linear) {
			if scale, known := scales[modelfile.TensorName(role, l, ".weight")]; known {
				d.scales[m] = scale
			}
		})
	}
}

// prepareLayout prepares the device's rows of a layout that was just read, and frees them.
func (d *splitLoader) prepareLayout(l *weights.Layout, w *weights.Weights) error {
	raw := d.Frames[len(d.Frames)-1]
	d.Frames = d.Frames[:len(d.Frames)-1]
	defer raw.Free()
	for _, m := range w.Splittable(l) {
		if err := d.prepareMatrix(m.Matrix); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	return nil
}

// prepareMatrix prepares the device's rows of a matrix, which are its data.
func (d *splitLoader) prepareMatrix(w *weights.Linear) (err error) {
	kind := &w.Offload.Matmul.Matmul
	tokens := d.chunk
	if kind.LastTokenOnly {
		tokens = headRows
	}
	op := hetero.Op{Tokens: tokens, Rows: kind.Rows, Cols: w.Cols, Type: w.Type, Weights: w.Data, Streamed: true}
	if tiled.Fits(w.Type, w.Cols) { // matrices that do not fit tiles have no scale on the CPU either
		op.Scale = d.scales[w]
	}
	w.Offload.Ranges, err = d.prepare(op, w.Offload.RowSplit, d.copyRows)
	return err
}

// copyRows copies rows to a frame that lives as long as the model.
func (d *splitLoader) copyRows(raw []byte) ([]byte, error) {
	frame, err := tiering.Alloc(d.Budget, tiering.Pinned, len(raw))
	if err != nil {
		return nil, err
	}
	d.Frames = append(d.Frames, frame)
	copy(frame.Bytes(), raw)
	return frame.Bytes()[:len(raw)], nil
}
