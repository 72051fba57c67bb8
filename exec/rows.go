package exec

import (
	"context"
	"os"
	"sync"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// rowReaders is how many rows of an embedding are read at once at most.
const rowReaders = 4

// rowLookup looks up the rows of tokens in an embedding. Those that are not in memory
// are read, several at a time where a prompt needs many, and the ones that are
// needed often are kept. A read that nobody waits for any more, because its pass
// was cancelled, ends on its own: its buffer belongs to its reader until then.
// Methods belong to the goroutine that holds the model's lock.
type rowLookup struct {
	e       *embedding
	kept    *rowCache // nil: none are kept
	scratch *tiering.Frame
	extra   *tiering.Frame // memory of all readers but the first, or nil
	reads   int64          // that were asked for

	mu      sync.Mutex
	buffers []*rowBuffer
	landed  chan struct{} // capacity 1: a read has ended
	exited  sync.WaitGroup
}

// rowBuffer is memory for the blocks of the pack around a unit of rows, and the
// state of its reader.
type rowBuffer struct {
	memory []byte
	ask    chan struct{} // capacity 1: begin to read

	// Guarded by rowLookup.mu.
	unit    int // that is here, or will be; -1: none
	reading bool
	wanted  bool // the lookup that is under way has yet to use it
	bytes   []byte
	err     error
}

// newRows makes an embedding ready to be looked up in. Memory is taken only where
// there is something to read: for one reader from what activations may take, and
// for more of them, and for rows to keep, from keep bytes.
func newRows(e *embedding, budget *tiering.Budget, keep int) (*rowLookup, error) {
	r := &rowLookup{e: e, landed: make(chan struct{}, 1)}
	if e.section == nil {
		return r, nil
	}
	size := e.bufferBytes()
	var err error
	if r.scratch, err = tiering.Alloc(budget, tiering.Scratch, size); err != nil {
		return nil, err
	}
	r.start(r.scratch.Bytes())
	// Two thirds are for readers, unless that is not enough for one.
	if more := min(rowReaders-1, keep*2/3/size); more > 0 {
		if r.extra, err = tiering.Alloc(budget, tiering.Cached, more*size); err != nil {
			r.close()
			return nil, err
		}
		for i := range more {
			r.start(r.extra.Bytes()[i*size : (i+1)*size])
		}
		keep -= more * size
	}
	keep -= 2 * os.Getpagesize() // by which frames are rounded up
	if r.kept, err = newRowCache(budget, e.rowBytes(), keep); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// keepRows returns the memory for rows that are kept, which plans have for an
// embedding that is not the output matrix too.
func (w *weights) keepRows() int {
	if w.tied {
		return 0
	}
	return min(tiering.RowCache, w.embed.Rows*w.embed.rowBytes())
}

// bufferBytes returns the memory that reading a row needs: blocks of the pack that
// hold the unit which the row is part of.
func (e *embedding) bufferBytes() int {
	_, unit := e.unit()
	return vfs.DirectAlign + unit + 2*pack.BlockBytes
}

// start adds a reader.
func (r *rowLookup) start(memory []byte) {
	b := &rowBuffer{memory: vfs.AlignDirect(memory), ask: make(chan struct{}, 1), unit: -1}
	r.buffers = append(r.buffers, b)
	r.exited.Add(1)
	go func() {
		defer r.exited.Done()
		for range b.ask {
			bytes, err := r.e.readUnit(b.memory, b.unit)
			r.mu.Lock()
			b.reading, b.bytes, b.err = false, bytes, err
			r.mu.Unlock()
			select {
			case r.landed <- struct{}{}:
			default:
			}
		}
	}()
}

// readUnit reads the blocks around a unit, and returns the unit.
func (e *embedding) readUnit(memory []byte, i int) ([]byte, error) {
	_, unit := e.unit()
	from := e.off + int64(i)*int64(unit)
	first := from / pack.BlockBytes * pack.BlockBytes
	last := min(e.size, (from+int64(unit)+pack.BlockBytes-1)/pack.BlockBytes*pack.BlockBytes)
	blocks := memory[:last-first]
	if _, err := e.section.ReadAt(blocks, first); err != nil {
		return nil, err
	}
	return blocks[from-first:][:unit], nil
}

// close ends the readers, waits for what they are at and frees the memory.
func (r *rowLookup) close() {
	for _, b := range r.buffers {
		close(b.ask)
	}
	r.exited.Wait()
	r.kept.free()
	for _, f := range []*tiering.Frame{r.scratch, r.extra} {
		if f != nil {
			f.Free()
		}
	}
}

// lookup decodes the rows of some tokens into dst. raw is memory for a row.
func (r *rowLookup) lookup(ctx context.Context, dst []float32 /* [len(ids), Cols] */, ids []int32, raw []byte) error {
	r.mu.Lock()
	for _, b := range r.buffers {
		b.wanted = false // by a lookup that failed
	}
	r.mu.Unlock()
	stored := raw[:r.e.rowBytes()]
	ahead := 0 // rows before this one have been asked for
	for i, id := range ids {
		out := dst[i*r.e.Cols : (i+1)*r.e.Cols]
		if int(id) < r.e.held() {
			r.e.row(out, r.e.Data, int(id), raw)
			continue
		}
		if row := r.kept.find(id); row != nil {
			quant.DequantRow(r.e.Type, out, row)
			continue
		}
		ahead = r.askAhead(ids, max(ahead, i))
		perUnit, _ := r.e.unit()
		unit, err := r.await(ctx, int(id)/perUnit)
		if err != nil {
			return err
		}
		r.e.stored(stored, unit, int(id)%perUnit)
		quant.DequantRow(r.e.Type, out, stored)
		r.kept.offer(id, stored)
	}
	return nil
}

// stored copies the bytes of a row out of a unit of rows.
func (m *Matrix) stored(dst, unit []byte, i int) {
	if m.Tiled {
		tiled.UnpackRow(dst, m.Type, unit, m.Cols, i)
		return
	}
	copy(dst, unit[i*len(dst):])
}

// askAhead asks for rows from a place on, as long as there are buffers, and
// returns how far it came.
func (r *rowLookup) askAhead(ids []int32, at int) int {
	perUnit, _ := r.e.unit()
	r.mu.Lock()
	defer r.mu.Unlock()
	for ; at < len(ids); at++ {
		id := ids[at]
		if int(id) < r.e.held() || r.kept.has(id) || r.find(int(id)/perUnit) != nil {
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
func (r *rowLookup) find(unit int) *rowBuffer {
	for _, b := range r.buffers {
		if b.unit == unit {
			return b
		}
	}
	return nil
}

// unused returns a buffer that holds nothing that is still to be used, or nil.
func (r *rowLookup) unused() *rowBuffer {
	for _, b := range r.buffers {
		if !b.reading && !b.wanted {
			return b
		}
	}
	return nil
}

// read begins to read a unit.
func (r *rowLookup) read(b *rowBuffer, unit int) {
	b.unit, b.reading, b.wanted, b.err = unit, true, true, nil
	r.reads++
	b.ask <- struct{}{} // the reader waits for it
}

// await returns a unit as soon as it is there. It is valid until the next call of
// any method.
func (r *rowLookup) await(ctx context.Context, unit int) ([]byte, error) {
	for {
		if bytes, done, err := r.take(unit); done {
			return bytes, err
		}
		select {
		case <-r.landed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// take returns a unit if it is there, and otherwise sees to it that it will be.
func (r *rowLookup) take(unit int) (bytes []byte, done bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.find(unit)
	if b == nil {
		// All buffers may hold rows for later, which are read again then.
		for _, b = range r.buffers {
			if b.reading {
				continue
			}
			if err := b.failed(); err != nil {
				return nil, true, err
			}
			r.read(b, unit)
			break
		}
		return nil, false, nil
	}
	if b.reading {
		return nil, false, nil
	}
	b.wanted = false
	if err := b.failed(); err != nil {
		return nil, true, err
	}
	return b.bytes, true, nil
}

// failed returns the error of the buffer's read and forgets it: the next read may
// succeed.
func (b *rowBuffer) failed() error {
	err := b.err
	if err != nil {
		b.unit, b.wanted, b.err = -1, false, nil
	}
	return err
}
