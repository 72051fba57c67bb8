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
	// lookupReaders is how many rows of an embedding are read at once at most, where
	// some of their memory is better used for rows that are kept.
	lookupReaders = 4
	// TiedLookupReaders is the same where none are kept: enough for a disk to be busy.
	TiedLookupReaders = 8
)

// EmbeddingLookup looks up the rows of tokens in an embedding. Those that are not in memory
// are read, several at a time where a prompt needs many, and the ones that are
// needed often are kept. A read that nobody waits for any more, because its pass
// was cancelled, ends on its own: its buffer belongs to its reader until then.
// Methods belong to the goroutine that holds the model's lock.
type EmbeddingLookup struct {
	e       *embedding
	Cache   *rowCache // nil: none are kept
	scratch *tiering.Frame
	Extra   *tiering.Frame // memory of all readers but the first, or nil
	reads   int64          // that were asked for
	order   []uint64       // the tokens of a lookup, see sortByRow

	mu        sync.Mutex
	buffers   []*lookupBuffer
	completed chan struct{} // capacity 1: a read has ended
	exited    sync.WaitGroup
}

// lookupBuffer is memory for the blocks of the pack around a unit of rows, and the
// state of its reader.
type lookupBuffer struct {
	memory []byte
	start  chan struct{} // capacity 1: begin to read

	// Guarded by rowLookup.mu.
	from, to int64 // blocks of the section that are here, or will be; equal: none
	reading  bool
	needed   bool // the lookup that is under way has yet to use it
	stale    bool // an earlier lookup began to read: what went wrong is its matter
	err      error
}

// LookupMemory is how many bytes looking up rows may take besides those of the first
// reader, which come from what activations may take.
type LookupMemory struct {
	Readers int // for more of them
	cache   int // for rows that are used often
}

// LookupMemory returns what a plan has for looking up rows.
func (w *Weights) LookupMemory(plan *tiering.Plan) LookupMemory {
	switch {
	case !w.Tied:
		all := min(tiering.EmbeddingRowCache, w.Embed.Rows*w.Embed.RowBytes())
		size := w.Embed.BufferBytes()
		readers := min(lookupReaders-1, all*2/3/size) * size
		return LookupMemory{readers, all - readers}
	case plan != nil:
		return LookupMemory{Readers: int(plan.Lookup)}
	}
	return LookupMemory{}
}

// NewEmbeddingLookup makes an embedding ready to be looked up in. Memory is taken only where
// there is something to read.
func NewEmbeddingLookup(e *embedding, budget *tiering.Budget, m LookupMemory) (*EmbeddingLookup, error) {
	r := &EmbeddingLookup{e: e, completed: make(chan struct{}, 1)}
	if e.section == nil {
		return r, nil
	}
	var err error
	if r.scratch, err = tiering.Alloc(budget, tiering.Scratch, e.BufferBytes()); err != nil {
		return nil, err
	}
	if err := r.startReaders(budget, m.Readers); err != nil {
		r.Close()
		return nil, err
	}
	m.cache -= 2 * os.Getpagesize() // by which frames are rounded up
	if r.Cache, err = newRowCache(budget, e.RowBytes(), m.cache); err != nil {
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

// startReaders starts the first reader, and as many more as memory holds. On an error there
// is the first.
func (r *EmbeddingLookup) startReaders(budget *tiering.Budget, memory int) (err error) {
	r.addReader(r.scratch.Bytes())
	size := r.e.BufferBytes()
	more := memory / size
	if more <= 0 {
		return nil
	}
	if r.Extra, err = tiering.Alloc(budget, tiering.Cached, more*size); err != nil {
		return err
	}
	for i := range more {
		r.addReader(r.Extra.Bytes()[i*size : (i+1)*size])
	}
	return nil
}

// addReader starts a reader.
func (r *EmbeddingLookup) addReader(memory []byte) {
	b := &lookupBuffer{memory: vfs.AlignDirect(memory), start: make(chan struct{}, 1)}
	r.buffers = append(r.buffers, b)
	r.exited.Add(1)
	go func() {
		defer r.exited.Done()
		for range b.start {
			_, err := r.e.section.ReadAt(b.memory[:b.to-b.from], b.from)
			r.mu.Lock()
			b.reading, b.err = false, err
			if b.stale || !b.needed {
				_ = b.takeErr() // nobody waits for it any more; who wants it now reads again
			}
			r.mu.Unlock()
			select {
			case r.completed <- struct{}{}:
			default:
			}
		}
	}()
}

// stopReaders ends the readers, waits for what they are at and frees the memory of all but
// the first.
func (r *EmbeddingLookup) stopReaders() {
	for _, b := range r.buffers {
		close(b.start)
	}
	r.exited.Wait()
	r.buffers = r.buffers[:0]
	if r.Extra != nil {
		r.Extra.Free()
		r.Extra = nil
	}
}

// Resize gives readers other memory, between two lookups.
func (r *EmbeddingLookup) Resize(budget *tiering.Budget, memory int) error {
	if r.scratch == nil || len(r.buffers) == 1+memory/r.e.BufferBytes() {
		return nil
	}
	r.stopReaders()
	return r.startReaders(budget, memory)
}

// Close ends the readers, waits for what they are at and frees the memory.
func (r *EmbeddingLookup) Close() {
	r.stopReaders()
	r.Cache.free()
	if r.scratch != nil {
		r.scratch.Free()
	}
}

// Lookup decodes the rows of some tokens into dst. raw is memory for a row.
func (r *EmbeddingLookup) Lookup(ctx context.Context, dst []float32 /* [len(ids), Cols] */, ids []int32, raw []byte) error {
	r.mu.Lock()
	for _, b := range r.buffers {
		b.needed, b.stale = false, true // by a lookup that failed
		if !b.reading {
			_ = b.takeErr() // whom it concerned has another error, or is gone
		}
	}
	r.mu.Unlock()
	r.sortByRow(ids)
	stored := raw[:r.e.RowBytes()]
	var using *lookupBuffer
	ahead := 0 // rows before this place in the order have been asked for
	for at, key := range r.order {
		id, i := int32(key>>32), int(uint32(key))
		out := dst[i*r.e.Cols : (i+1)*r.e.Cols]
		if int(id) < r.e.ResidentRows() {
			r.e.decodeRow(out, r.e.Data, int(id), raw)
			continue
		}
		if row := r.Cache.get(id); row != nil {
			quant.DequantRow(r.e.Type, out, row)
			continue
		}
		perUnit, _ := r.e.Unit()
		unit := int(id) / perUnit
		if using == nil || !using.holds(r.e.blockRange(unit)) {
			r.release(using)
			ahead = r.submitAhead(max(ahead, at))
			var err error
			if using, err = r.wait(ctx, unit); err != nil {
				return err
			}
		}
		r.e.copyRow(stored, r.e.unitOf(using, unit), int(id)%perUnit)
		quant.DequantRow(r.e.Type, out, stored)
		r.Cache.admit(id, stored)
	}
	return nil
}

// sortByRow puts the tokens of a lookup in the order of their rows: those that lie in one
// block are read together, and a row that occurs again is there already.
func (r *EmbeddingLookup) sortByRow(ids []int32) {
	r.order = r.order[:0]
	for i, id := range ids {
		r.order = append(r.order, uint64(uint32(id))<<32|uint64(uint32(i)))
	}
	slices.Sort(r.order)
}
