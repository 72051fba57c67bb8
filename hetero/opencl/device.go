package opencl

import (
	"errors"
	"fmt"
	"slices"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/tiering"
)

// Device implements hetero.Device on a Context. It computes parts of split matmuls.
type Device struct {
	context     *Context
	kernels     int
	buffers     map[*hetero.Buffer]*attached
	openTickets []*ticket // tickets with an event, in the order of the queue
	tickets     [maxTickets]ticket
	issued      int // tickets issued so far
}

// attached is the memory of a buffer on the device. unfetched lists the rows that
// kernels have written since the last Fetch; it is empty if the device shares memory.
type attached struct {
	*Memory
	unfetched []rows
}

// rows describes count rows of n elements of a matrix in a buffer.
type rows struct {
	hetero.View
	count, n int
}

// offset, stride and size are in bytes.
func (r rows) offset() int { return 4 * r.Offset }
func (r rows) stride() int { return 4 * r.Stride }
func (r rows) size() int   { return 4 * r.n }

// OpenDevice opens a device for matmuls.
func OpenDevice(o Options) (*Device, error) {
	c, err := Open(o)
	if err != nil {
		return nil, err
	}
	return &Device{context: c, buffers: map[*hetero.Buffer]*attached{}}, nil
}

// Context returns the underlying context.
func (d *Device) Context() *Context { return d.context }

// Capabilities describes the device.
func (d *Device) Capabilities() hetero.Capabilities {
	kind := hetero.GPU
	if d.context.Info.Kind == kindNames[kindCPU] {
		kind = hetero.CPU
	}
	return hetero.Capabilities{Name: d.context.Info.Name, Driver: d.context.Info.Driver, Kind: kind, SharesMemory: d.context.SharesMemory, Memory: d.context.Info.Memory}
}

// Clock returns the machine's clock.
func (d *Device) Clock() hetero.Clock { return hetero.Wall() }

// Attach wraps the buffer's memory, or allocates a copy on the device.
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

// Flush copies the buffer to the device, unless memory is shared.
func (d *Device) Flush(b *hetero.Buffer) error {
	m, err := d.memory(b)
	if err != nil || d.context.SharesMemory {
		return err
	}
	m.unfetched = m.unfetched[:0]
	return m.Write(0, b.Bytes())
}

// FlushRows copies rows to the device, unless memory is shared.
func (d *Device) FlushRows(v hetero.View, count, n int) error {
	m, err := d.memory(v.Buffer)
	if err != nil || d.context.SharesMemory {
		return err
	}
	m.unfetched = slices.DeleteFunc(m.unfetched, func(r rows) bool { return v.Contains(count, n, r.View, r.count, r.n) })
	return m.writeRows(rows{v, count, n}, v.Buffer.Bytes())
}

// Fetch copies rows from the device that kernels wrote since the last Flush or
// Fetch, unless memory is shared.
func (d *Device) Fetch(b *hetero.Buffer) error {
	m, err := d.memory(b)
	if err != nil || d.context.SharesMemory {
		return err
	}
	defer func() { m.unfetched = m.unfetched[:0] }() // after an error too: fetching later would copy old rows
	for _, r := range m.unfetched {
		if err := m.readRows(r, b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// markWritten records that a kernel writes a view, for Fetch.
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
	return nil, fmt.Errorf("opencl: %s: buffer is not attached", d.context.Info.Name)
}

// Prepare uploads the weights. Kernels are built at the first Submit.
func (d *Device) Prepare(op hetero.Op) (hetero.Kernel, error) {
	p, err := d.context.NewWeightMatrix(false, Weights{Type: op.Type, Rows: op.Rows, Cols: op.Cols, Data: op.Weights})
	if err != nil {
		return nil, err
	}
	k := &kernel{device: d, weights: p, tokens: op.Tokens}
	d.kernels++
	return k, nil
}

// Close waits for pending work and closes the device.
func (d *Device) Close() error {
	if d.kernels > 0 {
		return fmt.Errorf("opencl: %s: closed while %d kernels are open", d.context.Info.Name, d.kernels)
	}
	err := d.waitAll()
	for b, m := range d.buffers {
		err = errors.Join(err, m.Free())
		delete(d.buffers, b)
	}
	return errors.Join(err, d.context.Close())
}

var errKernelClosed = errors.New("opencl: the kernel is closed")

// kernel is a matmul of up to tokens tokens.
type kernel struct {
	device  *Device
	weights *WeightMatrix
	tokens  int
	// launchers caches a kernel for each combination of views. There are few
	// combinations, because buffers come from a small pool.
	launchers map[views]launcher
}

// views are the operands of a matmul, of one token (GEMV) or many.
type views struct {
	x, y hetero.View
	gemv bool
}

// launcher is a kernel with its arguments set.
type launcher interface {
	launch(tokens int) error
	Close() error
}

// The launchers for one token and for several.
type (
	gemvLauncher struct{ *GEMV }
	gemmLauncher struct{ *GEMM }
)

func (k gemvLauncher) launch(int) error        { return k.GEMV.launch(true) }
func (k gemmLauncher) launch(tokens int) error { return k.GEMM.launch(0, 0, tokens, true) }

// Submit starts the matmul. It rejects views outside their buffers.
func (k *kernel) Submit(x, y hetero.View) (hetero.Ticket, error) { return k.SubmitSome(k.tokens, x, y) }

// SubmitSome starts the matmul of fewer tokens.
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

// launcher returns the kernel for the views and creates it on their first use.
func (k *kernel) launcher(tokens int, v views) (launcher, error) {
	if k.weights == nil {
		return nil, errKernelClosed
	}
	name, width, cols := k.device.context.Info.Name, k.weights.Rows, k.weights.Cols
	if tokens < 1 || tokens > k.tokens {
		return nil, fmt.Errorf("opencl: %s: %d tokens, but the kernel is prepared for %d", name, tokens, k.tokens)
	}
	if !v.x.Fits(tokens, cols) || !v.y.Fits(tokens, width) {
		return nil, fmt.Errorf("opencl: %s: operands of a %d × %d × %d matmul exceed their buffers", name, tokens, width, cols)
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

// Tolerance covers GEMV and GEMM, because the kernel accepts fewer tokens.
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
