package weights

import (
	"context"

	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store/pack"
)

// blockRange returns where the blocks of the pack around a unit begin and end in the
// section.
func (e *embedding) blockRange(unit int) (from, to int64) {
	_, size := e.Unit()
	from = e.off + int64(unit)*int64(size)
	to = (from + int64(size) + pack.BlockBytes - 1) / pack.BlockBytes * pack.BlockBytes
	return from / pack.BlockBytes * pack.BlockBytes, min(e.size, to)
}

// unitOf returns a unit out of a buffer that holds it.
func (e *embedding) unitOf(b *lookupBuffer, unit int) []byte {
	_, size := e.Unit()
	return b.memory[e.off+int64(unit)*int64(size)-b.from:][:size]
}

// holds reports whether some blocks are here, or will be. The lock is held, or
// nothing is being read into the buffer.
func (b *lookupBuffer) holds(from, to int64) bool { return b.from <= from && to <= b.to }

// copyRow copies the bytes of a row out of a unit of rows.
func (m *Matrix) copyRow(dst, unit []byte, i int) {
	if m.Tiled {
		tiled.UnpackRow(dst, m.Type, unit, m.Cols, i)
		return
	}
	copy(dst, unit[i*len(dst):])
}

// release lets a buffer be used for something else.
func (r *EmbeddingLookup) release(b *lookupBuffer) {
	if b != nil {
		r.mu.Lock()
		b.needed = false
		r.mu.Unlock()
	}
}

// submitAhead asks for rows from a place in the order on, as long as there are buffers,
// and returns how far it came.
func (r *EmbeddingLookup) submitAhead(at int) int {
	perUnit, _ := r.e.Unit()
	r.mu.Lock()
	defer r.mu.Unlock()
	for ; at < len(r.order); at++ {
		id := int32(r.order[at] >> 32)
		if int(id) < r.e.ResidentRows() || r.Cache.contains(id) {
			continue
		}
		if b := r.findBuffer(int(id) / perUnit); b != nil {
			b.needed = true // even if an earlier lookup left it here
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

// findBuffer returns the buffer of a unit, or nil. The lock is held, as for all below.
func (r *EmbeddingLookup) findBuffer(unit int) *lookupBuffer {
	from, to := r.e.blockRange(unit)
	for _, b := range r.buffers {
		if b.holds(from, to) {
			return b
		}
	}
	return nil
}

// idleBuffer returns a buffer that holds nothing that is still to be used, or nil.
func (r *EmbeddingLookup) idleBuffer() *lookupBuffer {
	for _, b := range r.buffers {
		if !b.reading && !b.needed {
			return b
		}
	}
	return nil
}

// submit begins to read a unit.
func (r *EmbeddingLookup) submit(b *lookupBuffer, unit int) {
	b.from, b.to = r.e.blockRange(unit)
	b.reading, b.needed, b.stale, b.err = true, true, false, nil
	r.reads++
	b.start <- struct{}{} // the reader waits for it
}

// wait returns the buffer of a unit as soon as it is there. It is valid until it is
// left.
func (r *EmbeddingLookup) wait(ctx context.Context, unit int) (*lookupBuffer, error) {
	for {
		if b, done, err := r.tryTake(unit); done {
			return b, err
		}
		select {
		case <-r.completed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryTake returns the buffer of a unit if it is there, and otherwise sees to it that it
// will be.
func (r *EmbeddingLookup) tryTake(unit int) (_ *lookupBuffer, done bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.findBuffer(unit)
	if b == nil {
		if b = r.idleBuffer(); b == nil {
			b = r.replaceableBuffer()
		}
		if b == nil {
			return nil, false, nil // one of the reads will end
		}
		if err := b.takeErr(); err != nil {
			return nil, true, err
		}
		r.submit(b, unit)
		return nil, false, nil
	}
	b.needed = true // it may have been asked for by a lookup that was cancelled
	if b.reading {
		return nil, false, nil
	}
	if err := b.takeErr(); err != nil {
		return nil, true, err
	}
	return b, true, nil
}

// replaceableBuffer returns a buffer that holds rows for later, which are read again then,
// or nil.
func (r *EmbeddingLookup) replaceableBuffer() *lookupBuffer {
	for _, b := range r.buffers {
		if !b.reading {
			return b
		}
	}
	return nil
}

// takeErr returns the error of the buffer's read and forgets it: the next read may
// succeed.
func (b *lookupBuffer) takeErr() error {
	err := b.err
	if err != nil {
		b.from, b.to, b.needed, b.err = 0, 0, false, nil
	}
	return err
}
