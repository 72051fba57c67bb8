package opencl

import (
	"errors"
	"fmt"
	"slices"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/tiering"
)

// Device is a context as a device that takes part in divided products.
type Device struct {
	context     *Context
	kernels     int
	buffers     map[*hetero.Buffer]*attached
	openTickets []*ticket // that have their events, in the order of the queue
	tickets     [maxTickets]ticket
	issued      int // of them, so far
}

// attached is a buffer's memory on the device, and what products wrote there that
// the buffer does not have: nothing where memory is shared.
type attached struct {
	*Memory
	unfetched []rows
}

// rows are so many of a matrix in a buffer, of so many numbers.
type rows struct {
	hetero.View
	count, n int
}

// offset, stride and size are in bytes.
func (r rows) offset() int { return 4 * r.Offset }
func (r rows) stride() int { return 4 * r.Stride }
func (r rows) size() int   { return 4 * r.n }

// OpenDevice opens a device for products.
func OpenDevice(o Options) (*Device, error) {
	c, err := Open(o)
	if err != nil {
		return nil, err
	}
	return &Device{context: c, buffers: map[*hetero.Buffer]*attached{}}, nil
}

// Context returns what the device is made of.
func (d *Device) Context() *Context { return d.context }

// Capabilities says what the device can do.
func (d *Device) Capabilities() hetero.Capabilities {
	kind := hetero.GPU
	if d.context.Info.Kind == kindNames[kindCPU] {
		kind = hetero.CPU
	}
	return hetero.Capabilities{Name: d.context.Info.Name, Driver: d.context.Info.Driver, Kind: kind, SharesMemory: d.context.SharesMemory, Memory: d.context.Info.Memory}
}

// Clock is that of the machine.
func (d *Device) Clock() hetero.Clock { return hetero.Wall() }

// Attach makes the buffer's memory the device's, or gives it a copy there.
func (d *Device) Attach(b *hetero.Buffer) error {
	if d.buffers[b] != nil {
		return nil
	}
	var m *Memory
	var err error
	if d.context.SharesMemory {
		m, err = d.context.WrapHost(b.Bytes())
	} else {
		m, err = d.context.Alloc(tiering.Shared, len(b.Bytes()))
	}
	if err == nil {
		d.buffers[b] = &attached{Memory: m}
	}
	return err
}

// Flush copies the buffer to the device, unless it shares memory.
func (d *Device) Flush(b *hetero.Buffer) error {
	m, err := d.memory(b)
	if err != nil || d.context.SharesMemory {
		return err
	}
	m.unfetched = m.unfetched[:0]
	return m.Write(0, b.Bytes())
}

// FlushRows copies rows to the device, unless it shares memory.
func (d *Device) FlushRows(v hetero.View, count, n int) error {
	m, err := d.memory(v.Buffer)
	if err != nil || d.context.SharesMemory {
		return err
	}
	m.unfetched = slices.DeleteFunc(m.unfetched, func(r rows) bool { return v.Contains(count, n, r.View, r.count, r.n) })
	return m.writeRows(rows{v, count, n}, v.Buffer.Bytes())
}

// Fetch copies the rows from the device that products wrote there and nobody has
// flushed or fetched since, unless it shares memory.
func (d *Device) Fetch(b *hetero.Buffer) error {
	m, err := d.memory(b)
	if err != nil || d.context.SharesMemory {
		return err
	}
	defer func() { m.unfetched = m.unfetched[:0] }() // after an error too: rows that come late would be old ones
	for _, r := range m.unfetched {
		if err := m.readRows(r, b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// markWritten notes that a product writes a view, for Fetch.
func (d *Device) markWritten(y hetero.View, tokens, width int) {
	r := rows{y, tokens, width}
	if m := d.buffers[y.Buffer]; !d.context.SharesMemory && !slices.Contains(m.unfetched, r) {
		m.unfetched = append(m.unfetched, r)
	}
}

func (d *Device) memory(b *hetero.Buffer) (*attached, error) {
	if m := d.buffers[b]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("opencl: %s: a buffer that is not attached", d.context.Info.Name)
}

// Prepare puts the weights on the device and builds the kernels.
func (d *Device) Prepare(op hetero.Op) (hetero.Kernel, error) {
	p, err := d.context.NewWeightMatrix(false, Weights{Type: op.Type, Rows: op.Rows, Cols: op.Cols, Data: op.Weights})
	if err != nil {
		return nil, err
	}
	k := &kernel{device: d, weights: p, tokens: op.Tokens}
	d.kernels++
	return k, nil
}

// Close ends the device, after the work that nobody waited for.
func (d *Device) Close() error {
	if d.kernels > 0 {
		return fmt.Errorf("opencl: %s closed with %d kernels", d.context.Info.Name, d.kernels)
	}
	err := d.waitAll()
	for b, m := range d.buffers {
		err = errors.Join(err, m.Free())
		delete(d.buffers, b)
	}
	return errors.Join(err, d.context.Close())
}

var errKernelClosed = errors.New("opencl: the kernel is closed")

// kernel is a product of up to so many tokens.
type kernel struct {
	device  *Device
	weights *WeightMatrix
	tokens  int
	// launchers are the kernels for the views that were used so far: few, because
	// buffers come from a small pool.
	launchers map[views]launcher
}

// views are where a product reads and writes, of one token or of many.
type views struct {
	x, y hetero.View
	gemv bool
}

// launcher is a kernel whose arguments are set.
type launcher interface {
	launch(tokens int) error
	Close() error
}

// one and many are the kernels for one token and for more.
type (
	gemvLauncher struct{ *GEMV }
	gemmLauncher struct{ *GEMM }
)

func (k gemvLauncher) launch(int) error        { return k.GEMV.launch(true) }
func (k gemmLauncher) launch(tokens int) error { return k.GEMM.launch(0, 0, tokens, true) }

// Submit starts the product. Views that it would leave are refused.
func (k *kernel) Submit(x, y hetero.View) (hetero.Ticket, error) { return k.SubmitSome(k.tokens, x, y) }

// SubmitSome starts the product of fewer tokens.
func (k *kernel) SubmitSome(tokens int, x, y hetero.View) (hetero.Ticket, error) {
	l, err := k.launcher(tokens, views{x, y, tokens == 1})
	if err != nil {
		return nil, err
	}
	c := k.device.context
	if err := l.launch(tokens); err != nil {
		return nil, err
	}
	k.device.markWritten(y, tokens, k.weights.Rows)
	t, err := k.device.newTicket(c.event)
	if err != nil {
		return nil, err
	}
	if err := c.Flush(); err != nil {
		return nil, err
	}
	return t, nil
}

// launcher returns the kernel for some views, which is made when they are first
// used.
func (k *kernel) launcher(tokens int, v views) (launcher, error) {
	if k.weights == nil {
		return nil, errKernelClosed
	}
	name, width, cols := k.device.context.Info.Name, k.weights.Rows, k.weights.Cols
	if tokens < 1 || tokens > k.tokens {
		return nil, fmt.Errorf("opencl: %s: %d tokens for a kernel of %d", name, tokens, k.tokens)
	}
	if !v.x.Fits(tokens, cols) || !v.y.Fits(tokens, width) {
		return nil, fmt.Errorf("opencl: %s: a product of %d × %d × %d leaves its buffers", name, tokens, width, cols)
	}
	if l := k.launchers[v]; l != nil {
		return l, nil
	}
	x, err := k.device.memory(v.x.Buffer)
	if err != nil {
		return nil, err
	}
	y, err := k.device.memory(v.y.Buffer)
	if err != nil {
		return nil, err
	}
	var l launcher
	if v.gemv {
		var vector *GEMV
		vector, err = k.weights.NewGEMV(Input{X: x.Memory, From: v.x.Offset}, Output{Y: y.Memory, To: v.y.Offset})
		l = gemvLauncher{vector}
	} else {
		var matrix *GEMM
		matrix, err = k.weights.NewGEMM(k.tokens, x.Memory, v.x.Offset, v.x.Stride, Output{Y: y.Memory, To: v.y.Offset, Stride: v.y.Stride})
		l = gemmLauncher{matrix}
	}
	if err != nil {
		return nil, err
	}
	if k.launchers == nil {
		k.launchers = map[views]launcher{}
	}
	k.launchers[v] = l
	return l, nil
}

func (k *kernel) Bytes() int64 { return k.weights.Bytes() }

// Tolerance is that of one token or of many, because it may be given fewer.
func (k *kernel) Tolerance() float64 {
	return max(k.weights.Tolerance(1), k.weights.Tolerance(k.tokens))
}

func (k *kernel) Close() error {
	if k.weights == nil {
		return errKernelClosed
	}
	var err error
	for _, l := range k.launchers {
		err = errors.Join(err, l.Close())
	}
	err = errors.Join(err, k.weights.Close())
	k.weights, k.launchers = nil, nil
	k.device.kernels--
	return err
}
