package fetch

import (
	"context"

	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// Batch is the list of sequences in one forward pass.
type Batch interface {
	Sequences() int
	// Sequence returns sequence i and the position of its first new token.
	Sequence(i int) (seq *kv.Seq, pos int)
	// Selects reports whether layers without a window read only selected pages of it.
	Selects(i int) bool
	// Shared returns how many first pages of sequence i are those of the sequence before it. Layers
	// without a window read them once for both.
	Shared(i int) int
}

// Interleaver is a stream of weights that can also read pages. A model that streams no
// weights implements it too.
type Interleaver interface {
	// CanInterleave reports whether the stream can read pages now.
	CanInterleave() bool
	// Interleave inserts runs of pages where the layers need them: the pages of layer
	// l are pages[first[l]:first[l+1]]. It returns the number of each run in the
	// stream.
	Interleave(pages []prefetch.Run, first []int) (at []int)
	// Separate removes the pages from the stream.
	Separate()
	// Generation returns a number that changes whenever the stream starts or stops.
	Generation() int
	// WeightStream returns the stream, nil if no weights are streamed.
	WeightStream() *prefetch.Stream
}

// Options configure a Reader.
type Options struct {
	Cache   *kv.Cache
	Windows []int // [layer] sliding window in tokens; 0: all tokens
	// Stored is the layer in whose pages a layer finds its keys and values: itself, or an
	// earlier one; nil: itself in all layers.
	Stored  []int // [layer]
	Budget  *tiering.Budget
	Ring    int64 // size of the ring; 0: DefaultRing
	User    prefetch.Threads
	Weights Interleaver
}

// DefaultRing is the default size of the ring. leastRing is one that a disk still keeps filled.
const (
	DefaultRing = 8 << 20
	leastRing   = 1 << 20
)

// Take returns pages in groups of at least groupLeast bytes, and of up to groupMost
// bytes if more pages are ready. Small groups start early; large groups need fewer
// synchronizations of the threads.
const (
	groupLeast = 1 << 20
	groupMost  = 4 << 20
)

// Reader reads pages in the order in which the layers of a pass attend to them.
type Reader struct {
	Options
	layers      int
	ring        *tiering.Frame
	small       bool // the ring is the least one, see UseLeastRing
	piece       int  // size of the largest read
	largestPage int  // size of the largest page

	stream     *prefetch.Stream // nil before the first page on flash
	reads      []Read           // in the order of use
	first      []int            // [layer] index of its first read
	runs       []int            // [layer] index of its first run
	planned    []plannedSeq     // the sequences for which reads are planned
	streamRuns []int            // [run] its number in the stream of weights; nil: not interleaved
	generation int              // generation of the weight stream when the reads were planned
	onDemand   bool             // do not prefetch, see ReadOnDemand
	ringUses   int              // how often the stream began to use the ring
}

// plannedSeq identifies the pages of a sequence for which reads were planned.
type plannedSeq struct {
	version uint64
	pos     int
	selects bool
}

// NewReader returns a reader. It allocates its ring when a batch has pages on flash,
// or in Reserve.
func NewReader(o Options) *Reader {
	if o.Ring <= 0 {
		o.Ring = DefaultRing
	}
	layers := len(o.Windows)
	r := &Reader{Options: o, layers: layers, first: make([]int, layers+1), runs: make([]int, layers+1)}
	for l := range layers {
		r.largestPage = max(r.largestPage, o.Cache.PageBytes(l))
	}
	return r
}

// LargestPage returns the size of the largest page of all layers.
func (r *Reader) LargestPage() int { return r.largestPage }

// Reserve allocates the ring.
func (r *Reader) Reserve() error {
	if r.ring != nil {
		return nil
	}
	piece, size := r.ringSize()
	ring, err := tiering.AllocForReads(r.Budget, tiering.KVFrames, size)
	if err == nil {
		r.ring, r.piece = ring, piece
	}
	return err
}

// ringSize returns the size of the ring and of its largest read.
func (r *Reader) ringSize() (piece, bytes int) {
	ring := int(r.Ring)
	if r.small {
		ring = min(ring, leastRing)
	}
	piece = max(vfs.DirectAlign, vfs.DirectSize(min(ring/4, tiering.DefaultPiece)))
	slots := max(ring/piece, (r.largestPage+piece-1)/piece+1, 2)
	return piece, slots*piece + r.largestPage
}

// UseLeastRing makes the next ring small, until SetRing frees it, because there is no memory for one of
// Options.Ring. It returns the bytes that the ring takes.
func (r *Reader) UseLeastRing() int64 {
	r.small = true
	_, bytes := r.ringSize()
	return tiering.PageUp(int64(bytes))
}

// SetRing changes Options.Ring, between two batches, to what a plan counts. A ring of another size is
// freed, and the next batch that reads pages allocates it. A plan that keeps all pages in memory counts
// none: the ring is freed, and the size remains, because there may be pages on flash from before.
func (r *Reader) SetRing(bytes int64) {
	if bytes == r.Ring && !r.small {
		return
	}
	r.Release()
	r.small = false
	if bytes > 0 {
		r.Ring = bytes
	}
}

// Release frees the ring. The reader allocates it again when it needs it.
func (r *Reader) Release() {
	if r.ring == nil {
		return
	}
	if r.stream != nil {
		r.stream.Reconfigure(prefetch.Ring{}, prefetch.Sequence{})
	}
	r.ring.Free()
	r.ring, r.streamRuns = nil, nil
	r.ringUses++                                    // what others kept in it is gone
	r.planned, r.reads = r.planned[:0], r.reads[:0] // the next batch is planned again
	clear(r.first)
	clear(r.runs)
}

// idleRing returns the ring if the stream does not use it for the current batch, and how often
// the stream has used it. If the ring is in use or does not fit in memory, ring is nil.
func (r *Reader) idleRing() (ring []byte, uses int) {
	if len(r.reads) > 0 && r.streamRuns == nil || r.Reserve() != nil {
		return nil, 0
	}
	return r.ring.Bytes(), r.ringUses
}

// keeps reports whether a layer's pages can be picked.
func (r *Reader) keeps(layer int) bool {
	return r.Windows[layer] == 0 && r.Cache.PageBytes(layer) > 0
}

// Begin prepares the reads of a batch. The sequences already have room for their new
// tokens. If the sequences have the same pages on flash as in the last batch, reads
// in flight remain valid.
func (r *Reader) Begin(b Batch) error {
	if !r.planMatches(b) {
		if err := r.configure(b); err != nil {
			return err
		}
	}
	if r.stream != nil && r.streamRuns == nil {
		r.stream.Begin(0)
	}
	return nil
}

// Finish ends a successful pass.
func (r *Reader) Finish() {
	if r.stream != nil && r.streamRuns == nil {
		r.stream.Finish()
	}
}

// OnFlash reports whether any sequence of a batch has pages on flash.
func OnFlash(b Batch) bool {
	for i := range b.Sequences() {
		if seq, _ := b.Sequence(i); seq.ColdPages() > 0 {
			return true
		}
	}
	return false
}

// planMatches reports whether the planned reads are those that a batch needs.
func (r *Reader) planMatches(b Batch) bool {
	if len(r.planned) != b.Sequences() {
		return len(r.reads) == 0 && !OnFlash(b)
	}
	if len(r.reads) > 0 && r.generation != r.Weights.Generation() {
		return false
	}
	for i := range b.Sequences() {
		seq, pos := b.Sequence(i)
		if r.planned[i].version != seq.Version() || pos < r.planned[i].pos || r.planned[i].selects != b.Selects(i) {
			return false
		}
	}
	return true
}

// configure plans the reads of a batch and starts the first ones.
func (r *Reader) configure(b Batch) error {
	var seq prefetch.Sequence
	seq.Body = r.plan(b)
	r.streamRuns = nil
	if len(r.reads) > 0 && r.Weights.CanInterleave() {
		r.streamRuns = r.Weights.Interleave(seq.Body, r.runs)
		seq.Body = nil
	} else {
		r.Weights.Separate()
	}
	r.generation = r.Weights.Generation()
	if len(seq.Body) > 0 {
		if err := r.Reserve(); err != nil {
			return err
		}
		r.ringUses++
	}
	for i := range b.Sequences() {
		seq, pos := b.Sequence(i)
		r.planned = append(r.planned, plannedSeq{seq.Version(), pos, b.Selects(i)})
	}
	switch {
	case r.stream != nil:
		r.stream.Reconfigure(r.ringFor(seq.Body), seq)
	case len(seq.Body) > 0:
		r.stream = prefetch.NewStream(r.User, r.ringFor(seq.Body), seq)
		r.stream.Hold(r.onDemand)
	}
	return nil
}

// ringFor divides the ring into pieces for runs. A piece is as long as the longest
// run, or an equal part of it if the run exceeds one read. Shorter runs would waste
// the rest of a larger piece.
func (r *Reader) ringFor(runs []prefetch.Run) prefetch.Ring {
	if len(runs) == 0 {
		return prefetch.Ring{} // no reads
	}
	var longest int64
	for _, run := range runs {
		longest = max(longest, run.Size)
	}
	room := len(r.ring.Bytes()) - r.largestPage
	reads := max(1, (longest+int64(r.piece)-1)/int64(r.piece))
	piece := max(vfs.DirectAlign, vfs.DirectSize(int((longest+reads-1)/reads)))
	if room-2*piece < r.largestPage { // two pieces may be lost at the end of the ring
		piece = r.piece
	}
	return prefetch.Ring{Memory: r.ring.Bytes(), Piece: piece, Slots: room / piece}
}

// Take waits for pages of adjacent segments, from page of the first segment on, and
// appends the pages that are ready, at least one.
func (r *Reader) Take(ctx context.Context, pages []Page, reads []Read, layer, page int) ([]Page, error) {
	unit := r.pageBytes(layer)
	last := &reads[len(reads)-1]
	begin := reads[0].off + int64(page)*int64(unit)
	left := int(last.off + int64(last.Pages)*int64(unit) - begin)
	run := reads[0].run
	if r.streamRuns != nil {
		run = r.streamRuns[run]
	}
	data, err := r.activeStream().Take(ctx, run, begin, unit, min(groupLeast, left), min(groupMost, left))
	if err != nil {
		return pages, err
	}
	for i := range reads {
		read := &reads[i]
		for ; page < read.Pages; page++ {
			at := int(read.off + int64(page)*int64(unit) - begin)
			if at+unit > len(data) {
				return pages, nil
			}
			pages = append(pages, Page{data[at : at+unit : at+unit], read.segment, page})
		}
		page = 0
	}
	return pages, nil
}

// activeStream returns the stream that reads pages: the stream of weights if it reads
// both.
func (r *Reader) activeStream() *prefetch.Stream {
	if r.streamRuns != nil {
		return r.Weights.WeightStream()
	}
	return r.stream
}

// Interleaved reports whether the stream of weights reads the pages too.
func (r *Reader) Interleaved() bool { return r.streamRuns != nil }

// FlashBound reports whether passes wait for flash. Attention then submits more reads
// with each group of pages; otherwise a compute thread submits them.
func (r *Reader) FlashBound() bool {
	s := r.activeStream()
	return s != nil && s.FlashBound()
}

// Submit submits more reads. Any goroutine may call it.
func (r *Reader) Submit() {
	if s := r.activeStream(); s != nil {
		s.Submit()
	}
}

// Allow submits the reads of a layer if ReadOnDemand is set.
func (r *Reader) Allow(layer int) {
	if r.onDemand && r.stream != nil && r.streamRuns == nil {
		r.stream.Allow(r.runs[layer+1])
	}
}

// ReadOnDemand disables prefetching for measurements: the reader submits the reads of
// a layer only when the layer attends to its pages. It has no effect while the stream
// of weights reads the pages.
func (r *Reader) ReadOnDemand(late bool) {
	r.onDemand = late
	if r.stream != nil {
		r.stream.Hold(late)
	}
}

// Stats returns the totals of KV reads by both streams.
func (r *Reader) Stats() (all prefetch.StreamStats) {
	for _, stream := range []*prefetch.Stream{r.stream, r.Weights.WeightStream()} {
		if stream != nil {
			s := stream.Stats(prefetch.KV)
			all.Bytes, all.Stalled, all.Stalls = all.Bytes+s.Bytes, all.Stalled+s.Stalled, all.Stalls+s.Stalls
		}
	}
	return all
}

// Close ends all reads and releases the ring.
func (r *Reader) Close() {
	if r.stream != nil {
		r.stream.Close()
	}
	if r.ring != nil {
		r.ring.Free()
	}
}
