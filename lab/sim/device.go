package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/llmrun/llmrun/hetero"
)

// Device is one simulated processor.
type Device struct {
	soc     *SoC
	caps    hetero.Capabilities
	queue   *queue
	kernels map[*kernel]bool
	buffers map[*hetero.Buffer]*memory
	held    int64 // bytes of kernels and buffers
	closed  bool
}

// Capabilities describes the device.
func (d *Device) Capabilities() hetero.Capabilities { return d.caps }

// Clock returns the virtual clock of the chip.
func (d *Device) Clock() hetero.Clock { return d.soc.machine }

// hold reserves memory of the device.
func (d *Device) hold(bytes int64) error {
	if d.caps.Memory > 0 && d.held+bytes > d.caps.Memory {
		return &hetero.MemoryError{Device: d.caps.Name, Need: bytes, Held: d.held, Limit: d.caps.Memory}
	}
	d.held += bytes
	return nil
}

// Prepare dequantizes the weights. For the NPU it also charges the host the time of the graph
// compiler.
func (d *Device) Prepare(op hetero.Op) (hetero.Kernel, error) {
	if op.Tokens < 1 || op.Rows < 1 || op.Cols < 1 {
		return nil, fmt.Errorf("sim: the sizes of a matmul are %d × %d × %d; they must be positive", op.Tokens, op.Rows, op.Cols)
	}
	k := &kernel{device: d, op: op}
	var err error
	if !d.soc.o.TimeOnly {
		if k.weights, err = newWeights(op, d.caps.Kind); err != nil {
			return nil, err
		}
	}
	if err := d.hold(k.Bytes()); err != nil {
		return nil, err
	}
	m := d.soc.machine
	m.mu.Lock()
	defer m.mu.Unlock()
	if d.caps.Static {
		m.advance(m.now + d.soc.preparation(op))
	}
	d.kernels[k] = true
	return k, nil
}

// Close fails if a kernel is still open.
func (d *Device) Close() error {
	if len(d.kernels) > 0 {
		return fmt.Errorf("sim: %s is closed while %d kernels are open", d.caps.Name, len(d.kernels))
	}
	for b, m := range d.buffers {
		m.free()
		delete(d.buffers, b)
	}
	d.closed = true
	return nil
}

// Charge keeps the device busy with operations other than matmuls, such as norms, activations and
// attention. A plan of matmuls contains only their time.
func (d *Device) Charge(flops, bytes float64) hetero.Ticket {
	rate := d.soc.value[gpuFlops]
	if d.caps.Kind == hetero.CPU {
		rate = d.soc.value[cpuFlops]
	}
	return d.submit(&workItem{compute: flops / rate, bytes: bytes})
}

// submit appends a work item to the queue at the host's current time.
func (d *Device) submit(w *workItem) hetero.Ticket {
	m := d.soc.machine
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(m.now + d.soc.value[submitCost])
	w.left, w.ready = 1, m.now
	switch {
	case d.caps.Kind == hetero.NPU:
		w.ready += d.soc.value[npuStart]
	case d.caps.Kind == hetero.GPU && len(d.queue.items) == 0:
		w.ready += d.soc.value[requeueCost]
	}
	if len(d.queue.items) == 0 {
		d.queue.free = m.now
	}
	d.queue.items = append(d.queue.items, w)
	return &ticket{machine: m, item: w}
}

// kernel is a matmul on a device.
type kernel struct {
	device  *Device
	op      hetero.Op
	weights *weights // nil with Options.TimeOnly
}

func (k *kernel) Bytes() int64 {
	return int64(float64(k.op.Rows)*float64(k.op.Cols)*WeightBytes) + int64(k.op.Tokens*(k.op.Rows+k.op.Cols)*activationBytes)
}

func (k *kernel) Tolerance() float64 { return tolerance(k.device.caps.Kind, k.op) }

func (k *kernel) Close() error {
	if !k.device.kernels[k] {
		return errors.New("sim: the kernel is already closed")
	}
	delete(k.device.kernels, k)
	k.device.held -= k.Bytes()
	return nil
}

// Submit charges time for the matmul and computes the result when that time has passed.
func (k *kernel) Submit(x, y hetero.View) (hetero.Ticket, error) {
	return k.SubmitSome(k.op.Tokens, x, y)
}

// SubmitSome is Submit for fewer tokens. The NPU accepts only the prepared number.
func (k *kernel) SubmitSome(tokens int, x, y hetero.View) (hetero.Ticket, error) {
	d := k.device
	if !d.kernels[k] {
		return nil, errors.New("sim: the kernel is closed")
	}
	op := k.op
	if op.Tokens = tokens; tokens < 1 || tokens > k.op.Tokens || d.caps.Static && tokens != k.op.Tokens {
		return nil, fmt.Errorf("%s: a kernel for %[3]d tokens got %[2]d", d.caps.Name, tokens, k.op.Tokens)
	}
	w := &workItem{}
	w.compute, w.bytes = d.soc.cost(d.caps.Kind, op)
	if k.weights != nil {
		from, to := d.buffers[x.Buffer], d.buffers[y.Buffer]
		if from == nil || to == nil {
			return nil, fmt.Errorf("%s: the buffer is not attached", d.caps.Name)
		}
		if to.frame != nil {
			to.written = append(to.written, area{y, op.Tokens, op.Rows})
		}
		x.Buffer, y.Buffer = from.Buffer, to.Buffer
		w.run = func() { k.weights.multiply(op, d.caps.Kind, x, y) }
	}
	return d.submit(w), nil
}

// ticket is a submitted work item.
type ticket struct {
	machine *machine
	item    *workItem
}

// Done polls the flag of the work item, which takes time while the item runs. It returns the state
// of the flag at the end of that time.
func (t *ticket) Done() bool {
	t.machine.mu.Lock()
	defer t.machine.mu.Unlock()
	if !t.item.done {
		t.machine.advance(t.machine.now + t.machine.pollTime)
	}
	return t.item.done
}

// Wait sleeps repeatedly until the work item is done, like a host without a predicted end.
func (t *ticket) Wait() error {
	t.machine.mu.Lock()
	defer t.machine.mu.Unlock()
	for !t.item.done {
		t.machine.advance(t.machine.now + t.machine.grain)
	}
	return nil
}

// Elapsed returns the virtual time since New.
func (s *SoC) Elapsed() time.Duration { return s.machine.Now() }
