package sim

import (
	"slices"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/tiering"
)

// memory is a device's view of a buffer: the buffer itself, or a copy if memory is not shared.
type memory struct {
	*hetero.Buffer
	frame   *tiering.Frame // frame of the copy; nil for shared memory
	written []area         // written by the device since the last flush or fetch
}

// area is a number of rows with n numbers each.
type area struct {
	view    hetero.View
	rows, n int
}

// Attach adds the buffer to the device's memory.
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

// Flush copies the buffer to the device if memory is not shared.
func (d *Device) Flush(b *hetero.Buffer) error {
	d.chargeCopy()
	if m := d.buffers[b]; m != nil && m.frame != nil {
		copy(m.Bytes(), b.Bytes())
		m.written = m.written[:0]
	}
	return nil
}

// FlushRows is Flush for some rows. It takes as long as a whole copy.
func (d *Device) FlushRows(v hetero.View, rows, n int) error {
	d.chargeCopy()
	if m := d.buffers[v.Buffer]; m != nil && m.frame != nil {
		area{v, rows, n}.copy(m.Buffer, v.Buffer)
		m.written = slices.DeleteFunc(m.written, func(a area) bool { return v.Contains(rows, n, a.view, a.rows, a.n) })
	}
	return nil
}

// Fetch copies the areas that the device wrote to the buffer, if memory is not shared.
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

// copy copies the numbers of the area.
func (a area) copy(to, from *hetero.Buffer) {
	for r := range a.rows {
		at := a.view.Offset + r*a.view.Stride
		copy(to.Floats()[at:][:a.n], from.Floats()[at:])
	}
}

// chargeCopy advances the clock by the time of a copy if memory is not shared. A copy is a command
// of the device's queue: it begins when all earlier work items have ended, and the host waits for it.
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
