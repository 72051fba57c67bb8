package sim

import (
	"slices"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/tiering"
)

// memory is a buffer as a device has it: itself, or a copy where memory is not
// shared.
type memory struct {
	*hetero.Buffer
	frame   *tiering.Frame // of the copy, or nil
	written []area         // that the device wrote and nobody has flushed or fetched since
}

// area is rows of so many numbers.
type area struct {
	view    hetero.View
	rows, n int
}

// Attach counts the buffer as memory of the device.
func (d *Device) Attach(b *hetero.Buffer) error {
	if d.buffers[b] != nil {
		return nil
	}
	if err := d.hold(int64(len(b.Bytes()))); err != nil {
		return err
	}
	m := &memory{Buffer: b}
	if !d.caps.SharesMemory {
		frame, err := tiering.Alloc(tiering.New(0), tiering.Shared, len(b.Bytes()))
		if err != nil {
			return err
		}
		m.frame, m.Buffer = frame, hetero.WrapFrame(frame)
	}
	d.buffers[b] = m
	return nil
}

func (m *memory) free() {
	if m.frame != nil {
		m.frame.Free()
	}
}

// Flush costs a copy where memory is not shared.
func (d *Device) Flush(b *hetero.Buffer) error {
	d.chargeCopy()
	if m := d.buffers[b]; m != nil && m.frame != nil {
		copy(m.Bytes(), b.Bytes())
		m.written = m.written[:0]
	}
	return nil
}

// FlushRows costs a copy, too.
func (d *Device) FlushRows(v hetero.View, rows, n int) error {
	d.chargeCopy()
	if m := d.buffers[v.Buffer]; m != nil && m.frame != nil {
		area{v, rows, n}.copy(m.Buffer, v.Buffer)
		m.written = slices.DeleteFunc(m.written, func(a area) bool { return v.Contains(rows, n, a.view, a.rows, a.n) })
	}
	return nil
}

// Fetch costs a copy where memory is not shared.
func (d *Device) Fetch(b *hetero.Buffer) error {
	d.chargeCopy()
	if m := d.buffers[b]; m != nil {
		for _, a := range m.written {
			a.copy(b, m.Buffer)
		}
		m.written = m.written[:0]
	}
	return nil
}

// copy copies the area's places.
func (a area) copy(to, from *hetero.Buffer) {
	for r := range a.rows {
		at := a.view.Offset + r*a.view.Stride
		copy(to.Floats()[at:][:a.n], from.Floats()[at:])
	}
}

// chargeCopy lets the time of a copy pass, where memory is not shared. A copy is a
// command of the device's queue, which keeps order: it begins when all that was
// submitted before has ended, and the host waits until it is done.
func (d *Device) chargeCopy() {
	if d.caps.SharesMemory {
		return
	}
	m := d.soc.machine
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drain(d.queue)
	m.advance(m.now + d.soc.value[copyCost])
}
