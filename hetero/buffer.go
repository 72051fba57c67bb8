package hetero

import (
	"fmt"

	"github.com/llmrun/llmrun/tiering"
)

// Buffer is a block of page-aligned memory that all attached devices access: the
// input or output of an operation. A BufferPool or the owner of the wrapped frame owns
// its memory.
type Buffer struct {
	frame *tiering.Frame
	taken bool
}

// WrapFrame returns a frame as a buffer, for callers that manage the memory of the
// frame themselves. The caller keeps ownership of the frame.
func WrapFrame(frame *tiering.Frame) *Buffer { return &Buffer{frame: frame, taken: true} }

// View returns the view of a dense matrix in the buffer.
func (b *Buffer) View(matrix []float32, cols int) View {
	return View{Buffer: b, Offset: b.frame.Index(matrix), Stride: cols}
}

// Bytes returns the buffer's memory.
func (b *Buffer) Bytes() []byte { return b.frame.Bytes() }

// Floats returns the buffer's memory as float32 numbers.
func (b *Buffer) Floats() []float32 { return b.frame.Floats() }

// View is a matrix in a buffer. Row r begins at element Offset + r × Stride.
type View struct {
	Buffer *Buffer
	Offset int
	Stride int
}

// Row returns the first n elements of row r.
func (v View) Row(r, n int) []float32 { return v.Buffer.Floats()[v.Offset+r*v.Stride:][:n] }

// Fits reports whether the buffer contains the given number of rows of n elements
// without overlap.
func (v View) Fits(rows, n int) bool {
	return v.Offset >= 0 && v.Stride >= n && v.Offset+(rows-1)*v.Stride+n <= len(v.Buffer.Floats())
}

// Contains reports whether this matrix, of rows rows of n elements, contains all
// elements of another matrix.
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

// BufferPool holds equal buffers that the operations of all layers take in turn.
// They are attached to every device once and stay until the pool is closed, so that
// drivers never map or unmap memory between operations.
//
// One goroutine at a time may use a pool.
type BufferPool struct {
	slots []Buffer
}

// NewBufferPool allocates the buffers and attaches them to the devices. Close the
// pool after the devices even if NewBufferPool fails, since some buffers may be
// attached.
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

// Take returns an unused buffer with undefined content. It returns nil if all buffers
// are in use, which is a bug in the plan that reserved the slots.
func (p *BufferPool) Take() *Buffer {
	for i := range p.slots {
		if b := &p.slots[i]; !b.taken {
			b.taken = true
			return b
		}
	}
	return nil
}

// Put returns a buffer to the pool.
func (p *BufferPool) Put(b *Buffer) {
	if !b.taken {
		panic("hetero: buffer returned to its pool twice")
	}
	b.taken = false
}

// Close frees the memory. Close the devices first.
func (p *BufferPool) Close() {
	for i := range p.slots {
		if p.slots[i].frame != nil {
			p.slots[i].frame.Free()
		}
	}
	p.slots = nil
}
