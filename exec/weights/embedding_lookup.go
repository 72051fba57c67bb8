package weights

import (
	"context"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

const (
	// lookupReaders is the maximum number of concurrent row reads if part of the memory is
	// used for the row cache.
	lookupReaders = 4
	// TiedLookupReaders is the maximum without a row cache: enough to keep a disk busy.
	TiedLookupReaders = 8
)

// EmbeddingLookup returns the embedding rows of tokens. It reads rows that are not in
// memory, several at a time for a prompt, and caches frequent ones. A read whose pass was
// cancelled completes on its own; its buffer belongs to the reader until then. Methods
// belong to the goroutine that holds the model's lock.
type EmbeddingLookup struct {
	e                    *embedding
	Table                *EmbeddingLookup    // of the layers' own embeddings; nil: none
	scheduler            *prefetch.Scheduler // admits the reads; nil admits all
	Cache                *rowCache           // nil: no cache
	scratch              *tiering.Frame
	Extra                *tiering.Frame // buffers of all readers but the first, or nil
	reads                int64          // number of submitted reads
	order                []uint64       // sorted tokens of a lookup; see sortByRow
	decodePart, copyPart func(i int, stored []byte)
	receive              func(i int, stored []byte) // receives the rows of a lookup
	decoded              []float32                  // [len(ids), Cols] where decode puts them
	copied               []byte                     // [len(ids), RowBytes] where copyStored puts them

	// Stalled is the total time that lookups waited for rows.
	Stalled time.Duration

	mu        sync.Mutex
	buffers   []*lookupBuffer
	completed chan struct{} // capacity 1: a read has completed
	exited    sync.WaitGroup
}

// lookupBuffer is the memory for the blocks of the pack around one unit of rows, and the
// state of its reader.
type lookupBuffer struct {
	memory []byte
	start  chan struct{} // capacity 1: starts a read

	// Guarded by EmbeddingLookup.mu.
	from, to int64 // blocks of the section in the buffer, or being read into it; equal: none
	reading  bool
	needed   bool // the current lookup has yet to use it
	stale    bool // an earlier lookup submitted the read: its error does not count
	err      error
}

// ReadsFlash reports whether rows are read from the model's files.
func (r *EmbeddingLookup) ReadsFlash() bool {
	return r.e.section != nil || r.Table != nil && r.Table.ReadsFlash()
}

// LookupMemory is the memory of an EmbeddingLookup in bytes, without the first reader's
// buffer, which is scratch memory.
type LookupMemory struct {
	Readers int // for additional readers
	cache   int // for the row cache
}

// LookupMemory returns the memory that a plan grants to embedding lookups.
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

// TableMemory returns the memory that a plan grants to lookups in the table.
func (w *Weights) TableMemory() LookupMemory {
	all := min(tiering.TableRowCache, w.Table.Rows*w.Table.RowBytes())
	readers := min(lookupReaders-1, all*2/3/w.Table.BufferBytes()) * w.Table.BufferBytes()
	return LookupMemory{readers, all - readers}
}

// NewEmbeddingLookup returns the lookup of an embedding. It allocates memory only if rows
// have to be read, with a scheduler that admits the reads.
func NewEmbeddingLookup(e *embedding, budget *tiering.Budget, m LookupMemory, scheduler *prefetch.Scheduler) (*EmbeddingLookup, error) {
	r := &EmbeddingLookup{e: e, scheduler: scheduler, completed: make(chan struct{}, 1)}
	r.decodePart, r.copyPart = r.decode, r.copyStored // creating a method value allocates
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
	m.cache -= 2 * os.Getpagesize() // allowance for the page rounding of frames
	if r.Cache, err = newRowCache(budget, e.RowBytes(), m.cache); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// BufferBytes returns the memory that reading a row needs: the blocks of the pack that
// contain the row's unit.
func (e *embedding) BufferBytes() int {
	_, unit := e.LastPlane().Unit()
	return vfs.DirectAlign + unit + 2*pack.BlockBytes
}

// startReaders starts the first reader, and as many more as memory suffices for. The first
// runs even after an error.
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
			grant, _ := r.scheduler.Admit(prefetch.Awaited, int(b.to-b.from))
			_, err := r.e.section.ReadAt(b.memory[:b.to-b.from], b.from)
			r.scheduler.Done(grant)
			r.mu.Lock()
			b.reading, b.err = false, err
			if b.stale || !b.needed {
				_ = b.takeErr() // no lookup waits for this read; the next one that needs the rows reads again
			}
			r.mu.Unlock()
			select {
			case r.completed <- struct{}{}:
			default:
			}
		}
	}()
}

// stopReaders stops the readers, waits for their reads and frees the memory of all but the
// first.
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

// Resize changes the memory of readers, between two lookups.
func (r *EmbeddingLookup) Resize(budget *tiering.Budget, memory int) error {
	if r.scratch == nil || len(r.buffers) == 1+memory/r.e.BufferBytes() {
		return nil
	}
	r.stopReaders()
	return r.startReaders(budget, memory)
}

// Close stops the readers, waits for their reads and frees the memory.
func (r *EmbeddingLookup) Close() {
	if r.Table != nil {
		r.Table.Close()
	}
	r.stopReaders()
	r.Cache.free()
	if r.scratch != nil {
		r.scratch.Free()
	}
}

// Lookup decodes the rows of tokens into dst. raw is a buffer of LookupBytes.
func (r *EmbeddingLookup) Lookup(ctx context.Context, dst []float32 /* [len(ids), Cols] */, ids []int32, raw []byte) error {
	r.decoded, r.receive = dst, r.decodePart
	return r.lookup(ctx, ids, raw)
}

// LookupStored copies the rows of tokens, as they are stored, into dst. raw has LookupBytes. Bytes of tokens
// behind the table's last row are 0, which is a row of zeros in any format.
func (r *EmbeddingLookup) LookupStored(ctx context.Context, dst []byte /* [len(ids), RowBytes] */, ids []int32, raw []byte) error {
	r.copied, r.receive = dst, r.copyPart
	for i, id := range ids {
		if int(id) >= r.e.Rows {
			clear(dst[i*r.e.RowBytes() : (i+1)*r.e.RowBytes()])
		}
	}
	return r.lookup(ctx, ids, raw)
}

// Begin submits the first reads of a lookup that follows.
func (r *EmbeddingLookup) Begin(ids []int32) {
	if r.e.section == nil {
		return
	}
	r.resetBuffers()
	r.sortByRow(ids)
	r.submitAhead(0)
}

// decode is receive of Lookup.
func (r *EmbeddingLookup) decode(i int, stored []byte) {
	quant.DequantRow(r.e.Type, r.decoded[i*r.e.Cols:(i+1)*r.e.Cols], stored)
}

// copyStored is receive of LookupStored.
func (r *EmbeddingLookup) copyStored(i int, stored []byte) {
	copy(r.copied[i*len(stored):], stored)
}

// lookup passes the stored rows of tokens to receive, in the order of rows.
func (r *EmbeddingLookup) lookup(ctx context.Context, ids []int32, raw []byte) error {
	r.resetBuffers()
	r.sortByRow(ids)
	var using *lookupBuffer
	submitted := 0 // rows before this index were submitted
	for at, key := range r.order {
		id, i := int32(key>>32), int(uint32(key))
		if int(id) < r.e.LastPlane().ResidentRows() {
			r.receive(i, r.e.storedRow(r.e.residentUnit(int(id)), int(id), raw))
			continue
		}
		if row := r.Cache.get(id); row != nil {
			r.receive(i, row)
			continue
		}
		perUnit, _ := r.e.Unit()
		unit := int(id) / perUnit
		if using == nil || !using.holds(r.e.blockRange(unit)) {
			r.release(using)
			submitted = r.submitAhead(max(submitted, at))
			var err error
			if using, err = r.wait(ctx, unit); err != nil {
				return err
			}
		}
		stored := r.e.storedRow(r.e.unitOf(using, unit), int(id), raw)
		r.receive(i, stored)
		r.Cache.admit(id, stored)
	}
	return nil
}

// resetBuffers begins a lookup: it clears the needs and errors of an earlier lookup that failed.
func (r *EmbeddingLookup) resetBuffers() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.buffers {
		b.needed, b.stale = false, true
		if !b.reading {
			_ = b.takeErr()
		}
	}
}

// sortByRow sorts the tokens of a lookup by row, so that all rows of a block need one read, and
// repetitions of a row need no further read.
func (r *EmbeddingLookup) sortByRow(ids []int32) {
	r.order = r.order[:0]
	for i, id := range ids {
		if int(id) >= r.e.Rows { // the token has no row of this table
			continue
		}
		r.order = append(r.order, uint64(uint32(id))<<32|uint64(uint32(i)))
	}
	slices.Sort(r.order)
}

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
