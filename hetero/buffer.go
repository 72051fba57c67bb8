package hetero

import (
	"fmt"

	"github.com/llmrun/llmrun/tiering"
)

// Buffer is one piece of page-aligned memory that all devices see: the input or
// output of an operation. It belongs to a Pool, or lies over a frame, and lives as
// long as that.
type Buffer struct {
	frame *tiering.Frame
	taken bool
}

// WrapFrame returns a frame as a buffer, for whoever divides memory up himself: places
// in it are slots. The frame stays the caller's.
func WrapFrame(frame *tiering.Frame) *Buffer { return &Buffer{frame: frame, taken: true} }

// View returns where in the buffer a matrix lies whose rows follow each other.
func (b *Buffer) View(matrix []float32, cols int) View {
	return View{Buffer: b, Offset: b.frame.Index(matrix), Stride: cols}
}

// Bytes returns the buffer's memory.
func (b *Buffer) Bytes() []byte { return b.frame.Bytes() }

// Floats returns the buffer's memory as numbers.
func (b *Buffer) Floats() []float32 { return b.frame.Floats() }

// View is a matrix in a buffer: row r begins at number Offset + r × Stride.
type View struct {
	Buffer *Buffer
	Offset int
	Stride int
}

// Row returns n numbers of a row.
func (v View) Row(r, n int) []float32 { return v.Buffer.Floats()[v.Offset+r*v.Stride:][:n] }

// Fits reports whether so many rows of n numbers lie in the buffer, apart.
func (v View) Fits(rows, n int) bool {
	return v.Offset >= 0 && v.Stride >= n && v.Offset+(rows-1)*v.Stride+n <= len(v.Buffer.Floats())
}

// Contains reports whether all places of another matrix are in this one: both have so
// many rows of so many numbers.
func (v View) Contains(rows, n int, other View, otherRows, otherN int) bool {
	ahead := other.Offset - v.Offset
	if v.Buffer != other.Buffer || v.Stride != other.Stride || ahead < 0 || v.Stride < 1 {
		return false
	}
	return ahead/v.Stride+otherRows <= rows && ahead%v.Stride+otherN <= n
}

// At returns the view that begins at a row and column of this one.
func (v View) At(row, col int) View {
	v.Offset += row*v.Stride + col
	return v
}

// BufferPool is a few equal buffers that the operations of all layers take in turns.
// They are attached to every device once and stay until the pool is closed, so
// that drivers never map or unmap memory between two operations.
//
// A pool is used by one goroutine at a time.
type BufferPool struct {
	slots []Buffer
}

// NewBufferPool allocates so many buffers of so many bytes and attaches them to the
// devices. After an error too, the pool is to be closed when the devices are: some
// may have buffers attached.
func NewBufferPool(budget *tiering.Budget, slots, bytes int, devices ...Device) (*BufferPool, error) {
	p := &BufferPool{slots: make([]Buffer, slots)}
	for i := range p.slots {
		frame, err := tiering.Alloc(budget, tiering.Shared, bytes)
		if err != nil {
			return p, err
		}
		p.slots[i].frame = frame
		for _, d := range devices {
			if err := d.Attach(&p.slots[i]); err != nil {
				return p, fmt.Errorf("%s: %w", d.Capabilities().Name, err)
			}
		}
	}
	return p, nil
}

// Take returns a buffer that nobody uses, with whatever was last in it, or nil
// if all are in use: then the plan asked for fewer slots than it needs.
func (p *BufferPool) Take() *Buffer {
	for i := range p.slots {
		if b := &p.slots[i]; !b.taken {
			b.taken = true
			return b
		}
	}
	return nil
}

// Put gives a buffer back for the next operation.
func (p *BufferPool) Put(b *Buffer) {
	if !b.taken {
		panic("hetero: a buffer is given back twice")
	}
	b.taken = false
}

// Close frees the memory. The devices must have been closed, or must not be
// used any more.
func (p *BufferPool) Close() {
	for i := range p.slots {
		if p.slots[i].frame != nil {
			p.slots[i].frame.Free()
		}
	}
	p.slots = nil
}
