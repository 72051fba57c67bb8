package exec

import (
	"context"
	"slices"

	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// coldKV brings keys and values that are on flash, in the order in which the
// layers need them: while one layer computes, those of the next are on their way,
// and after the last layer those of the first for the next pass.
type coldKV struct {
	m     *Model
	bytes int64 // of the ring
	ring  *tiering.Frame
	piece int // the largest read
	unit  int // the largest page

	stream *prefetch.Stream // nil until something is cold
	reads  []chunkRead      // in the order in which they are needed
	first  []int            // [layer] its first read
	runs   []int            // [layer] its first run of the stream
	made   []coldSeq        // what the reads were made for
	at     []int            // [run] its number in the stream of weights; nil: stream brings it
	starts int              // of the stream of weights, when the reads were made
	picks  bool             // and whether layers that select pick their pages instead
	late   bool             // a layer's are read only when it looks at them
	picker picker
}

// coldSeq says which of a sequence's pages are cold, and from where on they are
// needed.
type coldSeq struct {
	version uint64
	pos     int
}

// defaultColdRing is the memory for keys and values on their way from flash.
const defaultColdRing = 8 << 20

func newColdKV(m *Model, ring int64) *coldKV {
	layers := len(m.Spec.Layers)
	c := &coldKV{m: m, bytes: ring, first: make([]int, layers+1), runs: make([]int, layers+1)}
	if c.bytes <= 0 {
		c.bytes = defaultColdRing
	}
	for l := range m.Spec.Layers {
		c.unit = max(c.unit, m.cache.PageBytes(l))
	}
	return c
}

// reserve takes the ring's memory although nothing is cold yet, where it is known
// that something will be.
func (c *coldKV) reserve(o *Options) error {
	if o.KVSpill == nil || o.KVHot == 0 {
		return nil
	}
	return c.allocate()
}

// begin makes ready for a batch whose sequences have room for its tokens. While
// they have the same pages on flash as those of the last batch, what is on its
// way already is used.
func (c *coldKV) begin(b *Batch) error {
	if !c.suits(b) {
		if err := c.configure(b); err != nil {
			return err
		}
	}
	if c.stream != nil && c.at == nil {
		c.stream.Begin(0)
	}
	return nil
}

// finish ends a pass that succeeded.
func (c *coldKV) finish() {
	if c.stream != nil && c.at == nil {
		c.stream.Finish()
	}
}

// suits reports whether the reads are those that a batch needs.
func (c *coldKV) suits(b *Batch) bool {
	if c.picks != c.m.selects(b) {
		return false
	}
	if len(c.made) != len(b.runs) {
		return !b.cold() && len(c.reads) == 0
	}
	if len(c.reads) > 0 && c.m.parts != nil && c.starts != c.m.parts.Starts {
		return false
	}
	for i, r := range b.runs {
		if c.made[i].version != r.seq.kv.Version() || r.pos < c.made[i].pos {
			return false
		}
	}
	return true
}

// cold reports whether any sequence has keys and values on flash.
func (b *Batch) cold() bool {
	return slices.ContainsFunc(b.runs, func(r run) bool { return r.seq.kv.ColdPages() > 0 })
}

// configure makes the reads for a batch and begins to read them.
func (c *coldKV) configure(b *Batch) error {
	var seq prefetch.Sequence
	seq.Body = c.plan(b)
	c.at = nil
	if len(c.reads) > 0 && c.m.parts.Joinable() {
		c.at = c.m.parts.Join(seq.Body, c.runs)
		seq.Body = nil
	} else {
		c.m.parts.Part()
	}
	if c.m.parts != nil {
		c.starts = c.m.parts.Starts
	}
	if len(seq.Body) > 0 {
		if err := c.allocate(); err != nil {
			return err
		}
	}
	for _, r := range b.runs {
		c.made = append(c.made, coldSeq{r.seq.kv.Version(), r.pos})
	}
	switch {
	case c.stream != nil:
		c.stream.Reconfigure(c.cut(seq.Body), seq)
	case len(seq.Body) > 0:
		c.stream = prefetch.NewStream(c.m.streamUser(), c.cut(seq.Body), seq)
		c.stream.Hold(c.late)
	}
	return nil
}

// allocate takes memory for the ring.
func (c *coldKV) allocate() error {
	if c.ring != nil {
		return nil
	}
	piece := vfs.DirectSize(min(int(c.bytes/4), tiering.DefaultPiece))
	slots := max(int(c.bytes)/piece, (c.unit+piece-1)/piece+1, 2)
	ring, err := tiering.AllocForReads(c.m.budget, tiering.KVFrames, slots*piece+c.unit)
	if err == nil {
		c.ring, c.piece = ring, piece
	}
	return err
}

// cut divides the ring for some runs. A piece is as long as they are, or an equal part
// of that where it is more than may be read at once: a shorter one would take the
// memory of a whole piece.
func (c *coldKV) cut(runs []prefetch.Run) prefetch.Ring {
	if len(runs) == 0 {
		return prefetch.Ring{} // nothing passes through
	}
	var longest int64
	for _, r := range runs {
		longest = max(longest, r.Size)
	}
	room := len(c.ring.Bytes()) - c.unit
	reads := max(1, (longest+int64(c.piece)-1)/int64(c.piece))
	piece := max(vfs.DirectAlign, vfs.DirectSize(int((longest+reads-1)/reads)))
	if room-2*piece < c.unit { // so much may be cut off at the end, and taken by what was before
		piece = c.piece
	}
	return prefetch.Ring{Memory: c.ring.Bytes(), Piece: piece, Slots: room / piece}
}

// together returns how many reads, of which the first is one, lie one behind the other
// for one sequence.
func (c *coldKV) together(reads []chunkRead) int {
	n := 1
	for n < len(reads) && reads[n].run == reads[0].run && reads[n].row == reads[0].row {
		n++
	}
	return n
}

// take appends pages of chunks that lie one behind the other to a list, from a page of
// the first on: at least one.
func (c *coldKV) take(ctx context.Context, pages []landedPage, reads []chunkRead, layer, page int) ([]landedPage, error) {
	unit := c.m.cache.PageBytes(layer)
	last := &reads[len(reads)-1]
	begin := reads[0].off + int64(page)*int64(unit)
	left := int(last.off + int64(last.pages)*int64(unit) - begin)
	run := reads[0].run
	if c.at != nil {
		run = c.at[run]
	}
	data, err := c.from().Take(ctx, run, begin, unit, min(sliceLeast, left), min(sliceMost, left))
	if err != nil {
		return pages, err
	}
	for i := range reads {
		r := &reads[i]
		for ; page < r.pages; page++ {
			at := int(r.off + int64(page)*int64(unit) - begin)
			if at+unit > len(data) {
				return pages, nil
			}
			pages = append(pages, landedPage{data[at : at+unit : at+unit], r.chunk, page})
		}
		page = 0
	}
	return pages, nil
}

// from returns the stream that brings pages: that of weights if it has both.
func (c *coldKV) from() *prefetch.Stream {
	if c.at != nil {
		return c.m.parts.Stream
	}
	return c.stream
}

// pressed reports whether flash is what passes wait for: then more pages are asked for
// with each group that is looked at. Else that is left to a thread that multiplies: the
// others have more to do meanwhile.
func (c *coldKV) pressed() bool {
	s := c.from()
	return s != nil && s.Pressed()
}

// feed asks for more pages. It may be called on any thread.
func (c *coldKV) feed() {
	if s := c.from(); s != nil {
		s.Feed()
	}
}

// stats returns what was read.
func (c *coldKV) stats() prefetch.StreamStats {
	all := prefetch.StreamStats{Bytes: c.picker.bytes, Stalls: c.picker.stalls, Stalled: c.picker.stalled}
	for _, stream := range []*prefetch.Stream{c.stream, c.m.stream()} {
		if stream != nil {
			s := stream.Stats(prefetch.KV)
			all.Bytes, all.Stalled, all.Stalls = all.Bytes+s.Bytes, all.Stalled+s.Stalled, all.Stalls+s.Stalls
		}
	}
	return all
}

// close ends all reading and gives the ring back.
func (c *coldKV) close() {
	if c.stream != nil {
		c.stream.Close()
	}
	if c.ring != nil {
		c.ring.Free()
	}
	c.picker.close()
}

// ask lets what a layer reads be read, where that waits until the layer looks.
func (c *coldKV) ask(layer int) {
	if c.late && c.stream != nil && c.at == nil {
		c.stream.Allow(c.runs[layer+1])
	}
}
