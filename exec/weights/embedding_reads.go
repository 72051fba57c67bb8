package weights

import (
	"context"
	"time"

	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store/pack"
)

// blockRange returns the range of the section, in whole blocks, that contains a unit.
func (e *embedding) blockRange(unit int) (from, to int64) {
	_, size := e.LastPlane().Unit()
	from = e.off + int64(unit)*int64(size)
	to = (from + int64(size) + pack.BlockBytes - 1) / pack.BlockBytes * pack.BlockBytes
	return from / pack.BlockBytes * pack.BlockBytes, min(e.size, to)
}

// unitOf returns a unit from a buffer that contains it.
func (e *embedding) unitOf(b *lookupBuffer, unit int) []byte {
	_, size := e.LastPlane().Unit()
	return b.memory[e.off+int64(unit)*int64(size)-b.from:][:size]
}

// holds reports whether the buffer contains, or will contain, a range of blocks. The caller
// holds the lock, or no read into the buffer is in flight.
func (b *lookupBuffer) holds(from, to int64) bool { return b.from <= from && to <= b.to }

// copyRow copies the bytes of row i out of a unit of rows.
func (m *Matrix) copyRow(dst, unit []byte, i int) {
	if m.Tiled {
		tiled.UnpackRow(dst, m.Type, unit, m.Cols, i)
		return
	}
	copy(dst, unit[i*len(dst):])
}

// release lets a buffer be reused.
func (r *EmbeddingLookup) release(b *lookupBuffer) {
	if b != nil {
		r.mu.Lock()
		b.needed = false
		r.mu.Unlock()
	}
}

// submitAhead submits reads of rows from an index of the order on, while buffers are idle.
// It returns the first index that it did not submit.
func (r *EmbeddingLookup) submitAhead(at int) int {
	perUnit, _ := r.e.Unit()
	r.mu.Lock()
	defer r.mu.Unlock()
	for ; at < len(r.order); at++ {
		id := int32(r.order[at] >> 32)
		if int(id) < r.e.LastPlane().ResidentRows() || r.Cache.contains(id) {
			continue
		}
		if b := r.findBuffer(int(id) / perUnit); b != nil {
			b.needed = true // even if an earlier lookup submitted it
			continue
		}
		b := r.idleBuffer()
		if b == nil {
			break
		}
		r.submit(b, int(id)/perUnit)
	}
	return at
}

// findBuffer returns the buffer of a unit, or nil. The caller holds the lock, here and
// below.
func (r *EmbeddingLookup) findBuffer(unit int) *lookupBuffer {
	from, to := r.e.blockRange(unit)
	for _, b := range r.buffers {
		if b.holds(from, to) {
			return b
		}
	}
	return nil
}

// idleBuffer returns a buffer whose content is not needed, or nil.
func (r *EmbeddingLookup) idleBuffer() *lookupBuffer {
	for _, b := range r.buffers {
		if !b.reading && !b.needed {
			return b
		}
	}
	return nil
}

// submit submits the read of a unit.
func (r *EmbeddingLookup) submit(b *lookupBuffer, unit int) {
	b.from, b.to = r.e.blockRange(unit)
	b.reading, b.needed, b.stale, b.err = true, true, false, nil
	r.reads++
	b.start <- struct{}{} // never blocks: the reader is idle
}

// wait returns the buffer of a unit once it is read. The buffer is valid until it is
// released.
func (r *EmbeddingLookup) wait(ctx context.Context, unit int) (*lookupBuffer, error) {
	b, done, err := r.tryTake(unit)
	if done {
		return b, err
	}
	begun := time.Now()
	defer func() {
		waited := time.Since(begun)
		r.Stalled += waited
		r.scheduler.Waited(waited)
	}()
	for ; !done; b, done, err = r.tryTake(unit) {
		select {
		case <-r.completed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return b, err
}

// tryTake returns the buffer of a unit if it is ready, and otherwise makes sure that a read
// of it is submitted.
func (r *EmbeddingLookup) tryTake(unit int) (_ *lookupBuffer, done bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.findBuffer(unit)
	if b == nil {
		if b = r.idleBuffer(); b == nil {
			b = r.replaceableBuffer()
		}
		if b == nil {
			return nil, false, nil // a read in flight will complete
		}
		if err := b.takeErr(); err != nil {
			return nil, true, err
		}
		r.submit(b, unit)
		return nil, false, nil
	}
	b.needed = true // a cancelled lookup may have submitted it
	if b.reading {
		return nil, false, nil
	}
	if err := b.takeErr(); err != nil {
		return nil, true, err
	}
	return b, true, nil
}

// replaceableBuffer returns a buffer whose rows are needed later, or nil. Those rows are
// then read again.
func (r *EmbeddingLookup) replaceableBuffer() *lookupBuffer {
	for _, b := range r.buffers {
		if !b.reading {
			return b
		}
	}
	return nil
}

// takeErr returns the error of the buffer's read and clears it, so that the next read may
// succeed.
func (b *lookupBuffer) takeErr() error {
	err := b.err
	if err != nil {
		b.from, b.to, b.needed, b.err = 0, 0, false, nil
	}
	return err
}
