package weights

import (
	"context"
	"os"
	"slices"
	"sync"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

const (
	// rowReaders is how many rows of an embedding are read at once at most, where
	// some of their memory is better used for rows that are kept.
	rowReaders = 4
	// TiedReaders is the same where none are kept: enough for a disk to be busy.
	TiedReaders = 8
)

// RowLookup looks up the rows of tokens in an embedding. Those that are not in memory
// are read, several at a time where a prompt needs many, and the ones that are
// needed often are kept. A read that nobody waits for any more, because its pass
// was cancelled, ends on its own: its buffer belongs to its reader until then.
// Methods belong to the goroutine that holds the model's lock.
type RowLookup struct {
	e       *embedding
	Kept    *rowCache // nil: none are kept
	scratch *tiering.Frame
	Extra   *tiering.Frame // memory of all readers but the first, or nil
	reads   int64          // that were asked for
	order   []uint64       // the tokens of a lookup, see byRow

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
	from, to int64 // blocks of the section that are here, or will be; equal: none
	reading  bool
	wanted   bool // the lookup that is under way has yet to use it
	old      bool // an earlier lookup began to read: what went wrong is its matter
	err      error
}

// RowMemory is how many bytes looking up rows may take besides those of the first
// reader, which come from what activations may take.
type RowMemory struct {
	Readers int // for more of them
	keep    int // for rows that are used often
}

// RowMemory returns what a plan has for looking up rows.
func (w *Weights) RowMemory(plan *tiering.Plan) RowMemory {
	switch {
	case !w.Tied:
		all := min(tiering.RowCache, w.Embed.Rows*w.Embed.RowBytes())
		size := w.Embed.BufferBytes()
		readers := min(rowReaders-1, all*2/3/size) * size
		return RowMemory{readers, all - readers}
	case plan != nil:
		return RowMemory{Readers: int(plan.Lookup)}
	}
	return RowMemory{}
}

// NewRows makes an embedding ready to be looked up in. Memory is taken only where
// there is something to read.
func NewRows(e *embedding, budget *tiering.Budget, m RowMemory) (*RowLookup, error) {
	r := &RowLookup{e: e, landed: make(chan struct{}, 1)}
	if e.section == nil {
		return r, nil
	}
	var err error
	if r.scratch, err = tiering.Alloc(budget, tiering.Scratch, e.BufferBytes()); err != nil {
		return nil, err
	}
	if err := r.start(budget, m.Readers); err != nil {
		r.Close()
		return nil, err
	}
	m.keep -= 2 * os.Getpagesize() // by which frames are rounded up
	if r.Kept, err = newRowCache(budget, e.RowBytes(), m.keep); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// bufferBytes returns the memory that reading a row needs: blocks of the pack that
// hold the unit which the row is part of.
func (e *embedding) BufferBytes() int {
	_, unit := e.Unit()
	return vfs.DirectAlign + unit + 2*pack.BlockBytes
}

// start starts the first reader, and as many more as memory holds. On an error there
// is the first.
func (r *RowLookup) start(budget *tiering.Budget, memory int) (err error) {
	r.add(r.scratch.Bytes())
	size := r.e.BufferBytes()
	more := memory / size
	if more <= 0 {
		return nil
	}
	if r.Extra, err = tiering.Alloc(budget, tiering.Cached, more*size); err != nil {
		return err
	}
	for i := range more {
		r.add(r.Extra.Bytes()[i*size : (i+1)*size])
	}
	return nil
}

// add starts a reader.
func (r *RowLookup) add(memory []byte) {
	b := &rowBuffer{memory: vfs.AlignDirect(memory), ask: make(chan struct{}, 1)}
	r.buffers = append(r.buffers, b)
	r.exited.Add(1)
	go func() {
		defer r.exited.Done()
		for range b.ask {
			_, err := r.e.section.ReadAt(b.memory[:b.to-b.from], b.from)
			r.mu.Lock()
			b.reading, b.err = false, err
			if b.old || !b.wanted {
				_ = b.failed() // nobody waits for it any more; who wants it now reads again
			}
			r.mu.Unlock()
			select {
			case r.landed <- struct{}{}:
			default:
			}
		}
	}()
}

// stop ends the readers, waits for what they are at and frees the memory of all but
// the first.
func (r *RowLookup) stop() {
	for _, b := range r.buffers {
		close(b.ask)
	}
	r.exited.Wait()
	r.buffers = r.buffers[:0]
	if r.Extra != nil {
		r.Extra.Free()
		r.Extra = nil
	}
}

// Resize gives readers other memory, between two lookups.
func (r *RowLookup) Resize(budget *tiering.Budget, memory int) error {
	if r.scratch == nil || len(r.buffers) == 1+memory/r.e.BufferBytes() {
		return nil
	}
	r.stop()
	return r.start(budget, memory)
}

// Close ends the readers, waits for what they are at and frees the memory.
func (r *RowLookup) Close() {
	r.stop()
	r.Kept.free()
	if r.scratch != nil {
		r.scratch.Free()
	}
}

// Lookup decodes the rows of some tokens into dst. raw is memory for a row.
func (r *RowLookup) Lookup(ctx context.Context, dst []float32 /* [len(ids), Cols] */, ids []int32, raw []byte) error {
	r.mu.Lock()
	for _, b := range r.buffers {
		b.wanted, b.old = false, true // by a lookup that failed
		if !b.reading {
			_ = b.failed() // whom it concerned has another error, or is gone
		}
	}
	r.mu.Unlock()
	r.byRow(ids)
	stored := raw[:r.e.RowBytes()]
	var using *rowBuffer
	ahead := 0 // rows before this place in the order have been asked for
	for at, key := range r.order {
		id, i := int32(key>>32), int(uint32(key))
		out := dst[i*r.e.Cols : (i+1)*r.e.Cols]
		if int(id) < r.e.Held() {
			r.e.row(out, r.e.Data, int(id), raw)
			continue
		}
		if row := r.Kept.find(id); row != nil {
			quant.DequantRow(r.e.Type, out, row)
			continue
		}
		perUnit, _ := r.e.Unit()
		unit := int(id) / perUnit
		if using == nil || !using.holds(r.e.blocks(unit)) {
			r.leave(using)
			ahead = r.askAhead(max(ahead, at))
			var err error
			if using, err = r.await(ctx, unit); err != nil {
				return err
			}
		}
		r.e.stored(stored, r.e.unitIn(using, unit), int(id)%perUnit)
		quant.DequantRow(r.e.Type, out, stored)
		r.Kept.offer(id, stored)
	}
	return nil
}

// byRow puts the tokens of a lookup in the order of their rows: those that lie in one
// block are read together, and a row that occurs again is there already.
func (r *RowLookup) byRow(ids []int32) {
	r.order = r.order[:0]
	for i, id := range ids {
		r.order = append(r.order, uint64(uint32(id))<<32|uint64(uint32(i)))
	}
	slices.Sort(r.order)
}
