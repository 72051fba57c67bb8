package weights

import (
	"context"

	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store/pack"
)

// blocks returns where the blocks of the pack around a unit begin and end in the
// section.
func (e *embedding) blocks(unit int) (from, to int64) {
	_, size := e.Unit()
	from = e.off + int64(unit)*int64(size)
	to = (from + int64(size) + pack.BlockBytes - 1) / pack.BlockBytes * pack.BlockBytes
	return from / pack.BlockBytes * pack.BlockBytes, min(e.size, to)
}

// unitIn returns a unit out of a buffer that holds it.
func (e *embedding) unitIn(b *rowBuffer, unit int) []byte {
	_, size := e.Unit()
	return b.memory[e.off+int64(unit)*int64(size)-b.from:][:size]
}

// holds reports whether some blocks are here, or will be. The lock is held, or
// nothing is being read into the buffer.
func (b *rowBuffer) holds(from, to int64) bool { return b.from <= from && to <= b.to }

// stored copies the bytes of a row out of a unit of rows.
func (m *Matrix) stored(dst, unit []byte, i int) {
	if m.Tiled {
		tiled.UnpackRow(dst, m.Type, unit, m.Cols, i)
		return
	}
	copy(dst, unit[i*len(dst):])
}

// leave lets a buffer be used for something else.
func (r *RowLookup) leave(b *rowBuffer) {
	if b != nil {
		r.mu.Lock()
		b.wanted = false
		r.mu.Unlock()
	}
}

// askAhead asks for rows from a place in the order on, as long as there are buffers,
// and returns how far it came.
func (r *RowLookup) askAhead(at int) int {
	perUnit, _ := r.e.Unit()
	r.mu.Lock()
	defer r.mu.Unlock()
	for ; at < len(r.order); at++ {
		id := int32(r.order[at] >> 32)
		if int(id) < r.e.Held() || r.Kept.has(id) {
			continue
		}
		if b := r.find(int(id) / perUnit); b != nil {
			b.wanted = true // even if an earlier lookup left it here
			continue
		}
		b := r.unused()
		if b == nil {
			break
		}
		r.read(b, int(id)/perUnit)
	}
	return at
}

// find returns the buffer of a unit, or nil. The lock is held, as for all below.
func (r *RowLookup) find(unit int) *rowBuffer {
	from, to := r.e.blocks(unit)
	for _, b := range r.buffers {
		if b.holds(from, to) {
			return b
		}
	}
	return nil
}

// unused returns a buffer that holds nothing that is still to be used, or nil.
func (r *RowLookup) unused() *rowBuffer {
	for _, b := range r.buffers {
		if !b.reading && !b.wanted {
			return b
		}
	}
	return nil
}

// read begins to read a unit.
func (r *RowLookup) read(b *rowBuffer, unit int) {
	b.from, b.to = r.e.blocks(unit)
	b.reading, b.wanted, b.old, b.err = true, true, false, nil
	r.reads++
	b.ask <- struct{}{} // the reader waits for it
}

// await returns the buffer of a unit as soon as it is there. It is valid until it is
// left.
func (r *RowLookup) await(ctx context.Context, unit int) (*rowBuffer, error) {
	for {
		if b, done, err := r.take(unit); done {
			return b, err
		}
		select {
		case <-r.landed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// take returns the buffer of a unit if it is there, and otherwise sees to it that it
// will be.
func (r *RowLookup) take(unit int) (_ *rowBuffer, done bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.find(unit)
	if b == nil {
		if b = r.unused(); b == nil {
			b = r.landedLater()
		}
		if b == nil {
			return nil, false, nil // one of the reads will end
		}
		if err := b.failed(); err != nil {
			return nil, true, err
		}
		r.read(b, unit)
		return nil, false, nil
	}
	b.wanted = true // it may have been asked for by a lookup that was cancelled
	if b.reading {
		return nil, false, nil
	}
	if err := b.failed(); err != nil {
		return nil, true, err
	}
	return b, true, nil
}

// landedLater returns a buffer that holds rows for later, which are read again then,
// or nil.
func (r *RowLookup) landedLater() *rowBuffer {
	for _, b := range r.buffers {
		if !b.reading {
			return b
		}
	}
	return nil
}

// failed returns the error of the buffer's read and forgets it: the next read may
// succeed.
func (b *rowBuffer) failed() error {
	err := b.err
	if err != nil {
		b.from, b.to, b.wanted, b.err = 0, 0, false, nil
	}
	return err
}
