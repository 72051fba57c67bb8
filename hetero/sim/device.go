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
	buffers map[*hetero.Buffer]bool
	held    int64 // bytes of kernels and buffers
	closed  bool
}

// Capabilities says what the device can do.
func (d *Device) Capabilities() hetero.Capabilities { return d.caps }

// Clock is the virtual time of the chip.
func (d *Device) Clock() hetero.Clock { return d.soc.machine }

// hold counts memory of the device.
func (d *Device) hold(bytes int64) error {
	if d.caps.Memory > 0 && d.held+bytes > d.caps.Memory {
		return &hetero.MemoryError{Device: d.caps.Name, Need: bytes, Held: d.held, Limit: d.caps.Memory}
	}
	d.held += bytes
	return nil
}

// Prepare takes the weights as they are. On the NPU it takes the time of a
// compiler, for the host.
func (d *Device) Prepare(op hetero.Op) (hetero.Kernel, error) {
	if op.Tokens < 1 || op.Rows < 1 || op.Cols < 1 {
		return nil, fmt.Errorf("sim: a product of %d × %d × %d", op.Tokens, op.Rows, op.Cols)
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

// Attach counts the buffer as memory of the device.
func (d *Device) Attach(b *hetero.Buffer) error {
	if d.buffers[b] {
		return nil
	}
	if err := d.hold(int64(len(b.Bytes()))); err != nil {
		return err
	}
	d.buffers[b] = true
	return nil
}

// Flush costs a copy where memory is not shared.
func (d *Device) Flush(*hetero.Buffer) error { return d.copy() }

// Fetch costs a copy where memory is not shared.
func (d *Device) Fetch(*hetero.Buffer) error { return d.copy() }

func (d *Device) copy() error {
	if d.caps.Shares {
		return nil
	}
	m := d.soc.machine
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(m.now + d.soc.value[copyCost])
	return nil
}

// Close fails if a kernel is still open.
func (d *Device) Close() error {
	if len(d.kernels) > 0 {
		return fmt.Errorf("sim: %s closed with %d kernels", d.caps.Name, len(d.kernels))
	}
	d.closed = true
	return nil
}

// Charge keeps the device busy with work that is not a product: norms,
// activations, attention, of which a plan of products knows only the time.
func (d *Device) Charge(flops, bytes float64) hetero.Ticket {
	rate := d.soc.value[gpuFlops]
	if d.caps.Kind == hetero.CPU {
		rate = d.soc.value[cpuFlops]
	}
	return d.submit(&job{compute: flops / rate, bytes: bytes})
}

// submit puts a job into the queue, at the host's present time.
func (d *Device) submit(j *job) hetero.Ticket {
	m := d.soc.machine
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(m.now + d.soc.value[submitCost])
	j.left, j.ready = 1, m.now
	switch {
	case d.caps.Kind == hetero.NPU:
		j.ready += d.soc.value[npuStart]
	case d.caps.Kind == hetero.GPU && len(d.queue.jobs) == 0:
		j.ready += d.soc.value[requeueCost]
	}
	if len(d.queue.jobs) == 0 {
		d.queue.free = m.now
	}
	d.queue.jobs = append(d.queue.jobs, j)
	return &ticket{machine: m, job: j}
}

// kernel is a product on a device.
type kernel struct {
	device  *Device
	op      hetero.Op
	weights *weights // nil if only time passes
}

func (k *kernel) Bytes() int64 {
	return int64(float64(k.op.Rows)*float64(k.op.Cols)*WeightBytes) + int64(k.op.Tokens*(k.op.Rows+k.op.Cols)*activationBytes)
}

func (k *kernel) Tolerance() float64 { return tolerance(k.device.caps.Kind, k.op) }

func (k *kernel) Close() error {
	if !k.device.kernels[k] {
		return errors.New("sim: a kernel is closed twice")
	}
	delete(k.device.kernels, k)
	k.device.held -= k.Bytes()
	return nil
}

func (k *kernel) Submit(x, y hetero.View) (hetero.Ticket, error) {
	if !k.device.kernels[k] {
		return nil, errors.New("sim: submit to a closed kernel")
	}
	j := &job{}
	j.compute, j.bytes = k.device.soc.cost(k.device.caps.Kind, k.op)
	if k.weights != nil {
		if !k.device.buffers[x.Buffer] || !k.device.buffers[y.Buffer] {
			return nil, fmt.Errorf("%s: a buffer that is not attached", k.device.caps.Name)
		}
		j.run = func() { k.weights.multiply(k.op, k.device.caps.Kind, x, y) }
	}
	return k.device.submit(j), nil
}

// ticket is a job that was submitted.
type ticket struct {
	machine *machine
	job     *job
}

// Done costs a look: the host sees a flag that was set before it looked.
func (t *ticket) Done() bool {
	t.machine.mu.Lock()
	defer t.machine.mu.Unlock()
	if !t.job.done {
		t.machine.advance(t.machine.now + t.machine.look)
	}
	return t.job.done
}

// Wait sleeps again and again, as a host that knows nothing does.
func (t *ticket) Wait() error {
	t.machine.mu.Lock()
	defer t.machine.mu.Unlock()
	for !t.job.done {
		t.machine.advance(t.machine.now + t.machine.grain)
	}
	return nil
}

// Elapsed returns how long the chip has been at work since it was made.
func (s *SoC) Elapsed() time.Duration { return s.machine.Now() }
