package fetch

import (
	"context"

	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// Batch is the sequences of one pass.
type Batch interface {
	Sequences() int
	// Sequence returns one of them and the position of its first new token.
	Sequence(i int) (seq *kv.Seq, pos int)
}

// Interleaver is a stream of weights that can bring pages as well. Its methods may be
// called on a model without such a stream, which then joins nothing.
type Interleaver interface {
	// CanInterleave reports whether the stream can bring pages now.
	CanInterleave() bool
	// Interleave puts runs of pages where layers need them: those of layer l are
	// pages[first[l]:first[l+1]]. It returns the number of each in the stream.
	Interleave(pages []prefetch.Run, first []int) (at []int)
	// Separate makes the stream one of weights alone again.
	Separate()
	// Generation counts how often the stream was started or stopped.
	Generation() int
	// WeightStream returns the stream, nil while nothing is streamed.
	WeightStream() *prefetch.Stream
}

// Options describe the cache that a Reader reads from and the memory that it may take.
type Options struct {
	Cache   *kv.Cache
	Windows []int // [layer] tokens that a token attends to, 0: all
	Budget  *tiering.Budget
	Ring    int64 // bytes of the ring; 0: DefaultRing
	User    prefetch.Threads
	Weights Interleaver
}

// DefaultRing is the memory for pages on their way from flash.
const DefaultRing = 8 << 20

// Pages are taken in groups: of groupLeast bytes, or more if more is ready, up to
// groupMost. Small groups begin early, large ones need fewer meetings of the threads.
const (
	groupLeast = 1 << 20
	groupMost  = 4 << 20
)

// Reader reads pages in the order in which the layers of a pass attend to them.
type Reader struct {
	Options
	layers      int
	ring        *tiering.Frame
	piece       int // the largest read
	largestPage int // the largest page

	stream     *prefetch.Stream // nil until something is on flash
	reads      []Read           // in the order in which they are needed
	first      []int            // [layer] its first read
	runs       []int            // [layer] its first run of the stream
	planned    []plannedSeq     // what the reads were planned for
	streamRuns []int            // [run] its number in the stream of weights; nil: stream brings it
	generation int              // of the stream of weights, when the reads were planned
	selects    bool             // layers without a window read the pages that a selection takes
	onDemand   bool             // a layer's pages are submitted only when it attends to them
}

// plannedSeq says for which pages of a sequence, and from which position on, reads were
// planned.
type plannedSeq struct {
	version uint64
	pos     int
}

// Page is a page that is in memory now.
type Page struct {
	Data    []byte
	segment kv.Segment
	index   int // of the segment
}

// Verify compares a page's checksum with that of what was written.
func (p *Page) Verify(layer int, sum uint32) error {
	return p.segment.Verify(layer, p.index, sum)
}

// NewReader returns a reader. It takes memory when something is on flash, or at Reserve.
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

// LargestPage returns the bytes of the largest page of any layer.
func (r *Reader) LargestPage() int { return r.largestPage }

// Reserve takes the ring's memory although nothing is on flash yet.
func (r *Reader) Reserve() error {
	if r.ring != nil {
		return nil
	}
	piece := vfs.DirectSize(min(int(r.Ring/4), tiering.DefaultPiece))
	slots := max(int(r.Ring)/piece, (r.largestPage+piece-1)/piece+1, 2)
	ring, err := tiering.AllocForReads(r.Budget, tiering.KVFrames, slots*piece+r.largestPage)
	if err == nil {
		r.ring, r.piece = ring, piece
	}
	return err
}

// Begin prepares for a batch whose sequences have room for its tokens. While they have the
// same pages on flash as those of the last batch, reads that are under way are used.
func (r *Reader) Begin(b Batch, selects bool) error {
	if !r.planMatches(b, selects) {
		if err := r.configure(b, selects); err != nil {
			return err
		}
	}
	if r.stream != nil && r.streamRuns == nil {
		r.stream.Begin(0)
	}
	return nil
}

// Finish ends a pass that succeeded.
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
func (r *Reader) planMatches(b Batch, selects bool) bool {
	if r.selects != selects {
		return false
	}
	if len(r.planned) != b.Sequences() {
		return len(r.reads) == 0 && !OnFlash(b)
	}
	if len(r.reads) > 0 && r.generation != r.Weights.Generation() {
		return false
	}
	for i := range b.Sequences() {
		seq, pos := b.Sequence(i)
		if r.planned[i].version != seq.Version() || pos < r.planned[i].pos {
			return false
		}
	}
	return true
}

// configure plans the reads for a batch and submits the first.
func (r *Reader) configure(b Batch, selects bool) error {
	var seq prefetch.Sequence
	r.selects = selects
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
	}
	for i := range b.Sequences() {
		seq, pos := b.Sequence(i)
		r.planned = append(r.planned, plannedSeq{seq.Version(), pos})
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

// ringFor divides the ring for some runs. A piece is as long as the longest run, or an equal
// part of it where it is more than one read may ask for: a shorter run would take the
// memory of a whole piece.
func (r *Reader) ringFor(runs []prefetch.Run) prefetch.Ring {
	if len(runs) == 0 {
		return prefetch.Ring{} // nothing passes through
	}
	var longest int64
	for _, run := range runs {
		longest = max(longest, run.Size)
	}
	room := len(r.ring.Bytes()) - r.largestPage
	reads := max(1, (longest+int64(r.piece)-1)/int64(r.piece))
	piece := max(vfs.DirectAlign, vfs.DirectSize(int((longest+reads-1)/reads)))
	if room-2*piece < r.largestPage { // the end of the ring and the page before it may take this much
		piece = r.piece
	}
	return prefetch.Ring{Memory: r.ring.Bytes(), Piece: piece, Slots: room / piece}
}

// Take waits for pages of segments that lie one behind the other, from a page of the first
// segment on, and appends those that are ready to a list: at least one.
func (r *Reader) Take(ctx context.Context, pages []Page, reads []Read, layer, page int) ([]Page, error) {
	unit := r.Cache.PageBytes(layer)
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

// activeStream returns the stream that brings pages: that of weights if it brings both.
func (r *Reader) activeStream() *prefetch.Stream {
	if r.streamRuns != nil {
		return r.Weights.WeightStream()
	}
	return r.stream
}

// Interleaved reports whether the stream of weights brings the pages too.
func (r *Reader) Interleaved() bool { return r.streamRuns != nil }

// FlashBound reports whether passes wait for flash: then attention submits more reads with
// each group of pages. Otherwise a thread that multiplies submits them.
func (r *Reader) FlashBound() bool {
	s := r.activeStream()
	return s != nil && s.FlashBound()
}

// Submit submits more reads. Any thread may call it.
func (r *Reader) Submit() {
	if s := r.activeStream(); s != nil {
		s.Submit()
	}
}

// Allow submits the reads of a layer, where ReadOnDemand holds them back.
func (r *Reader) Allow(layer int) {
	if r.onDemand && r.stream != nil && r.streamRuns == nil {
		r.stream.Allow(r.runs[layer+1])
	}
}

// ReadOnDemand makes a layer's pages be submitted only when it attends to them, which shows
// what prefetching is worth. It changes nothing where one stream brings weights and pages.
func (r *Reader) ReadOnDemand(late bool) {
	r.onDemand = late
	if r.stream != nil {
		r.stream.Hold(late)
	}
}

// Stats returns what was read of keys and values, whichever stream brought it.
func (r *Reader) Stats() (all prefetch.StreamStats) {
	for _, stream := range []*prefetch.Stream{r.stream, r.Weights.WeightStream()} {
		if stream != nil {
			s := stream.Stats(prefetch.KV)
			all.Bytes, all.Stalled, all.Stalls = all.Bytes+s.Bytes, all.Stalled+s.Stalled, all.Stalls+s.Stalls
		}
	}
	return all
}

// Close ends all reading and releases the ring.
func (r *Reader) Close() {
	if r.stream != nil {
		r.stream.Close()
	}
	if r.ring != nil {
		r.ring.Free()
	}
}
