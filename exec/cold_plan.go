package exec

import (
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/store/vfs"
)

// chunkRead is what a layer reads of one chunk for one sequence. Chunks that lie one
// behind the other are in one run of the stream.
type chunkRead struct {
	chunk kv.Chunk
	row   int // of the batch: index of the sequence's run
	page  int // of the sequence: the chunk's first
	pages int
	run   int
	off   int64 // in the run
}

// plan makes the reads for a batch, and returns the runs that they are in.
func (c *coldKV) plan(b *Batch) (runs []prefetch.Run) {
	c.made, c.reads, c.picks = c.made[:0], c.reads[:0], c.m.selects(b)
	for l := range c.m.Spec.Layers {
		c.first[l], c.runs[l] = len(c.reads), len(runs)
		if c.m.cache.PageBytes(l) == 0 || c.picks && c.m.Spec.Layers[l].Window == 0 {
			continue
		}
		for i := range b.runs {
			runs = c.planLayer(runs, l, i, &b.runs[i])
		}
	}
	last := len(c.m.Spec.Layers)
	c.first[last], c.runs[last] = len(c.reads), len(runs)
	return runs
}

// planLayer appends what a layer reads of one sequence: chunks of which it sees
// anything.
func (c *coldKV) planLayer(runs []prefetch.Run, layer, row int, r *run) []prefetch.Run {
	begun := len(runs)
	seen, page := c.firstPage(layer, r.pos), 0
	for _, part := range r.seq.kv.Cold() {
		if page+part.Pages > seen {
			from, off, _ := part.Chunk().LayerRun(layer)
			size := vfs.DirectSize(int64(part.Pages * c.m.cache.PageBytes(layer)))
			if last := len(runs) - 1; last >= begun && runs[last].From == from && runs[last].Off+runs[last].Size == off {
				runs[last].Size += size
			} else {
				runs = append(runs, prefetch.Run{From: from, Off: off, Size: size, Kind: prefetch.KV})
			}
			last := len(runs) - 1
			c.reads = append(c.reads, chunkRead{part.Chunk(), row, page, part.Pages, last, off - runs[last].Off})
		}
		page += part.Pages
	}
	return runs
}

// firstPage returns the first page that a token at pos, or a later one, sees.
func (c *coldKV) firstPage(layer, pos int) int {
	w := c.m.Spec.Layers[layer].Window
	if w <= 0 {
		return 0
	}
	return max(0, pos-w+1) / c.m.cache.PageTokens()
}
