package exec

import (
	"context"
	"slices"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/kv"
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
	cut   prefetch.Ring // the same
	unit  int           // the largest page

	stream *prefetch.Stream // nil until something is cold
	runs   []coldRun        // of the stream, in order
	first  []int            // [layer] its first run
	made   []coldSeq        // what the runs were made for
	at     []int            // [run] its number in the stream of weights; nil: stream brings it
	starts int              // of the stream of weights, when the runs were made
	picks  bool             // and whether layers that select pick their pages instead
	late   bool             // a layer's are read only when it looks at them
	picker picker
}

// coldRun is what a layer reads of one chunk for one sequence.
type coldRun struct {
	chunk kv.Chunk
	row   int // of the batch: index of the sequence's run
	page  int // of the sequence: the chunk's first
	pages int
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
	c := &coldKV{m: m, bytes: ring, first: make([]int, len(m.Spec.Layers)+1)}
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

// suits reports whether the runs are those that a batch needs.
func (c *coldKV) suits(b *Batch) bool {
	if c.picks != c.m.selects(b) {
		return false
	}
	if len(c.made) != len(b.runs) {
		return !b.cold() && len(c.runs) == 0
	}
	if len(c.runs) > 0 && c.m.parts != nil && c.starts != c.m.parts.starts {
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

// configure makes the runs for a batch and begins to read them.
func (c *coldKV) configure(b *Batch) error {
	c.made, c.runs, c.picks = c.made[:0], c.runs[:0], c.m.selects(b)
	var seq prefetch.Sequence
	for l := range c.m.Spec.Layers {
		c.first[l] = len(c.runs)
		if c.m.cache.PageBytes(l) == 0 {
			continue
		}
		for i := range b.runs {
			seq.Body = c.layerRuns(seq.Body, l, i, &b.runs[i])
		}
	}
	c.first[len(c.m.Spec.Layers)] = len(c.runs)
	c.at = nil
	if len(c.runs) > 0 && c.m.parts.joinable() {
		c.at = c.m.parts.join(seq.Body, c.first)
		seq.Body = nil
	} else {
		c.m.parts.part()
	}
	if c.m.parts != nil {
		c.starts = c.m.parts.starts
	}
	if len(c.runs) > 0 && c.at == nil {
		if err := c.allocate(); err != nil {
			return err
		}
	}
	for _, r := range b.runs {
		c.made = append(c.made, coldSeq{r.seq.kv.Version(), r.pos})
	}
	switch {
	case c.stream != nil:
		c.stream.Reconfigure(c.cut, seq)
	case len(c.runs) > 0 && c.at == nil:
		hetero.RoomForReads(tiering.StreamReads)
		c.stream = prefetch.NewStream(tiering.StreamReads, c.cut, seq)
		c.stream.Hold(c.late)
	}
	return nil
}

// layerRuns appends what a layer reads of one sequence: chunks of which it sees
// anything.
func (c *coldKV) layerRuns(body []prefetch.Run, layer, row int, r *run) []prefetch.Run {
	if c.picks && c.m.Spec.Layers[layer].Window == 0 {
		return body
	}
	seen := c.firstPage(layer, r.pos)
	page := 0
	for _, part := range r.seq.kv.Cold() {
		if page+part.Pages > seen {
			from, off, _ := part.Chunk().LayerRun(layer)
			size := int64(part.Pages * c.m.cache.PageBytes(layer))
			body = append(body, prefetch.Run{From: from, Off: off, Size: vfs.DirectSize(size), Kind: prefetch.KV})
			c.runs = append(c.runs, coldRun{part.Chunk(), row, page, part.Pages})
		}
		page += part.Pages
	}
	return body
}

// firstPage returns the first page that a token at pos, or a later one, sees.
func (c *coldKV) firstPage(layer, pos int) int {
	w := c.m.Spec.Layers[layer].Window
	if w <= 0 {
		return 0
	}
	return max(0, pos-w+1) / c.m.cache.PageTokens()
}

// allocate takes memory for the ring. A read is of about what a chunk has of a
// layer.
func (c *coldKV) allocate() error {
	if c.ring != nil {
		return nil
	}
	typical := c.unit * c.m.cache.ChunkPages()
	piece := vfs.DirectSize(min(typical, int(c.bytes/4), tiering.DefaultPiece))
	slots := max(int(c.bytes)/piece, (c.unit+piece-1)/piece+1, 2)
	ring, err := tiering.Alloc(c.m.budget, tiering.KVFrames, slots*piece+c.unit)
	if err == nil {
		c.ring, c.cut = ring, prefetch.Ring{Memory: ring.Bytes(), Piece: piece, Slots: slots}
	}
	return err
}

// take returns pages of run i from a page of it on: at least one.
func (c *coldKV) take(ctx context.Context, i, layer, page int) ([]byte, error) {
	unit := c.m.cache.PageBytes(layer)
	left := (c.runs[i].pages - page) * unit
	stream := c.stream
	if c.at != nil {
		stream, i = c.m.parts.stream, c.at[i]
	}
	return stream.Take(ctx, i, int64(page)*int64(unit), unit, min(sliceLeast, left), min(sliceMost, left))
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

// close ends the readers and gives the ring back.
func (c *coldKV) close() {
	if c.stream != nil {
		c.stream.Close()
	}
	if c.ring != nil {
		c.ring.Free()
	}
	c.picker.close()
}
