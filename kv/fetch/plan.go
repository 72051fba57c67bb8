package fetch

import (
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/store/vfs"
)

// Read describes the pages of one segment that a layer reads for one sequence.
// Segments that are adjacent on flash share a run of the stream.
type Read struct {
	Sequence  int // index in the batch
	FirstPage int // number of the segment's first page in the sequence
	Pages     int
	segment   kv.Segment
	run       int
	off       int64 // offset in the run
}

// Layer returns the reads of a layer, grouped by sequence.
func (r *Reader) Layer(layer int) []Read { return r.reads[r.first[layer]:r.first[layer+1]] }

// Adjacent returns the number of reads at the head of the list that are adjacent on
// flash and belong to one sequence.
func Adjacent(reads []Read) int {
	n := 1
	for n < len(reads) && reads[n].run == reads[0].run && reads[n].Sequence == reads[0].Sequence {
		n++
	}
	return n
}

// FirstPage returns the first page that a token at position pos or later attends to
// in a layer.
func (r *Reader) FirstPage(layer, pos int) int {
	w := r.Windows[layer]
	if w <= 0 {
		return 0
	}
	return max(0, pos-w+1) / r.Cache.PageTokens()
}

// stored returns the layer in whose pages a layer finds its keys and values.
func (r *Reader) stored(layer int) int {
	if r.Stored == nil {
		return layer
	}
	return r.Stored[layer]
}

// pageBytes returns the size of the pages that a layer reads.
func (r *Reader) pageBytes(layer int) int { return r.Cache.PageBytes(r.stored(layer)) }

// plan computes the reads for a batch and returns their runs.
func (r *Reader) plan(b Batch) (runs []prefetch.Run) {
	r.planned, r.reads = r.planned[:0], r.reads[:0]
	for l := range r.layers {
		r.first[l], r.runs[l] = len(r.reads), len(runs)
		if r.pageBytes(l) == 0 {
			continue
		}
		for i := range b.Sequences() {
			if b.Selects(i) && r.Windows[l] == 0 {
				continue
			}
			seq, pos := b.Sequence(i)
			first := r.FirstPage(l, pos)
			if r.Windows[l] == 0 {
				first = b.Shared(i)
			}
			runs = r.planLayer(runs, l, i, seq, first)
		}
	}
	r.first[r.layers], r.runs[r.layers] = len(r.reads), len(runs)
	return runs
}

// planLayer appends the reads of a layer for one sequence: every segment with a page
// from page first on.
func (r *Reader) planLayer(runs []prefetch.Run, layer, sequence int, seq *kv.Seq, first int) []prefetch.Run {
	begun := len(runs)
	page := 0
	for _, span := range seq.Cold() {
		if page+span.Pages > first {
			from, off, _ := span.Segment().LayerRun(r.stored(layer))
			size := vfs.DirectSize(int64(span.Pages * r.pageBytes(layer)))
			if last := len(runs) - 1; last >= begun && runs[last].From == from && runs[last].Off+runs[last].Size == off {
				runs[last].Size += size
			} else {
				runs = append(runs, prefetch.Run{From: from, Off: off, Size: size, Kind: prefetch.KV})
			}
			last := len(runs) - 1
			r.reads = append(r.reads, Read{
				Sequence: sequence, FirstPage: page, Pages: span.Pages,
				segment: span.Segment(), run: last, off: off - runs[last].Off,
			})
		}
		page += span.Pages
	}
	return runs
}
