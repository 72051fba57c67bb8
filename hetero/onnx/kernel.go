//go:build npu

package onnx

import (
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/onnx/graph"
	"github.com/llmrun/llmrun/tiering"
)

// maxBindings bounds the operand bindings that a kernel caches. A pool has few
// buffers, and a split few offsets in each.
const maxBindings = 64

// kernel is a prepared matmul. Kernels of the same matmul share a graph.
type kernel struct {
	device   *Device
	op       hetero.Op // without weights
	graph    *prepared
	in, out  graph.Tensor
	bindings []binding
	// Buffers for dense copies of views whose rows are strided.
	gatherX, gatherY *tiering.Frame
	closed           bool
}

// submission is a submitted matmul.
type submission struct {
	kernel  *kernel
	binding uintptr // the library's object
	x, y    hetero.View
	ticket  *ticket
}

var errClosed = errors.New("onnx: the kernel or its device is closed")

func newKernel(d *Device, op hetero.Op, g *prepared) *kernel {
	op.Weights = nil
	matrix := func(name string, cols int) graph.Tensor {
		return graph.Tensor{Name: name, Element: graph.Float, Dims: []int64{int64(op.Tokens), int64(cols)}}
	}
	return &kernel{
		device: d, op: op, graph: g,
		in: matrix(graph.InputName, op.Cols), out: matrix(graph.OutputName, op.Rows),
	}
}

// Bytes returns the memory of the graph, counted in full for each kernel.
func (k *kernel) Bytes() int64 { return k.graph.bytes + k.gatherBytes() }

func (k *kernel) gatherBytes() int64 { return frameBytes(k.gatherX) + frameBytes(k.gatherY) }

func frameBytes(f *tiering.Frame) int64 {
	if f == nil {
		return 0
	}
	return int64(len(f.Bytes()))
}

// Tolerance returns the tolerance of the graph's arithmetic.
func (k *kernel) Tolerance() float64 { return k.graph.tolerance }

// Submit queues the matmul.
func (k *kernel) Submit(x, y hetero.View) (hetero.Ticket, error) {
	d := k.device
	if k.closed || d.closed {
		return nil, errClosed
	}
	if err := errors.Join(d.checkView(x, k.op.Tokens, k.op.Cols), d.checkView(y, k.op.Tokens, k.op.Rows)); err != nil {
		return nil, err
	}
	from, err := k.operandAddress(&k.gatherX, x, k.op.Cols)
	if err != nil {
		return nil, err
	}
	to, err := k.operandAddress(&k.gatherY, y, k.op.Rows)
	if err != nil {
		return nil, err
	}
	bound, err := k.bind(from, to)
	if err != nil {
		return nil, err
	}
	t, err := d.queue.submit(submission{kernel: k, binding: bound, x: x, y: y})
	if err != nil {
		return nil, err // not t: a nil *ticket would be a non-nil Ticket
	}
	return t, nil
}

// isDense reports whether the rows of a view are adjacent, as the library requires.
func (k *kernel) isDense(v hetero.View, cols int) bool { return v.Stride == cols || k.op.Tokens == 1 }

// operandAddress returns the address of a matrix for the graph: in place, or in a
// buffer of the kernel.
func (k *kernel) operandAddress(frame **tiering.Frame, v hetero.View, cols int) (uintptr, error) {
	if k.isDense(v, cols) {
		return address(v.Buffer.Bytes()[4*v.Offset:]), nil
	}
	if *frame == nil {
		size := 4 * k.op.Tokens * cols
		if err := k.device.reserveMemory(int64(size)); err != nil {
			return 0, err
		}
		f, err := tiering.Alloc(k.device.budget, tiering.Shared, size)
		if err != nil {
			k.device.releaseMemory(int64(size))
			return 0, err
		}
		*frame = f
	}
	return address((*frame).Bytes()), nil
}

// bind returns the binding of two addresses and caches it.
func (k *kernel) bind(x, y uintptr) (uintptr, error) {
	for i := range k.bindings {
		if b := &k.bindings[i]; b.xAt == x && b.yAt == y {
			return b.handle, nil
		}
	}
	if len(k.bindings) == maxBindings {
		k.device.queue.drain()
		k.unbind()
	}
	b, err := k.graph.session.bind(x, y, k.in, k.out)
	if err != nil {
		return 0, err
	}
	k.bindings = append(k.bindings, b)
	return b.handle, nil
}

func (k *kernel) unbind() {
	for _, b := range k.bindings {
		k.device.library.unbind(b)
	}
	k.bindings = k.bindings[:0]
}

// run computes a matmul, on the queue's thread.
func (d *Device) run(j submission) error {
	k := j.kernel
	copied := 0
	if !k.isDense(j.x, k.op.Cols) {
		rows := k.gatherX.Floats()
		for t := range k.op.Tokens {
			copied += copy(rows[t*k.op.Cols:][:k.op.Cols], j.x.Row(t, k.op.Cols))
		}
	}
	if err := k.graph.session.run(j.binding); err != nil {
		return fmt.Errorf("%s: matmul of %d × %d × %d: %w", d.caps.Name, k.op.Tokens, k.op.Rows, k.op.Cols, err)
	}
	if !k.isDense(j.y, k.op.Rows) {
		rows := k.gatherY.Floats()
		for t := range k.op.Tokens {
			copied += copy(j.y.Row(t, k.op.Rows), rows[t*k.op.Rows:][:k.op.Rows])
		}
	}
	d.gathered.Add(4 * int64(copied))
	return nil
}

// Close releases the kernel, and the graph with its last kernel.
func (k *kernel) Close() error {
	if k.closed {
		return errClosed
	}
	k.closed = true
	k.unbind()
	k.device.releaseMemory(k.gatherBytes())
	for _, f := range []*tiering.Frame{k.gatherX, k.gatherY} {
		if f != nil {
			f.Free()
		}
	}
	k.device.kernels--
	k.device.releaseGraph(k.graph)
	return nil
}
