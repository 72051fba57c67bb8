package exec

import (
	"context"

	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/kv/segment"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/tiering"
)

// restoreSummaries computes the key summaries of a sequence whose n tokens, all in whole pages,
// were restored from flash instead of computed. It reads each key that stayed on flash once, which
// costs as many reads as one token with exact attention. The caller holds m.mu.
func (s *Sequence) restoreSummaries(ctx context.Context, n int) error {
	if err := s.summaries.Grow(n); err != nil {
		return err
	}
	w := keySummarizer{seq: s, pass: s.model.pass, cache: s.model.cache, end: n / kv.BlockTokens}
	if err := w.allocate(); err != nil {
		return err
	}
	defer w.free()
	for layer, heads := range w.cache.Shape().KVHeads {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if heads > 0 {
			if err := w.summarize(layer, heads); err != nil {
				return err
			}
		}
	}
	return nil
}

// keySummarizer is the state of summarizing restored keys.
type keySummarizer struct {
	seq      *Sequence
	pass     *pass // its threads do the work
	cache    *kv.Cache
	end      int // first block after the last
	frame    *tiering.Frame
	maxPages int // pages that the frame holds
}

// allocate allocates memory for reading pages that stayed on flash. If the budget has little room,
// it allocates memory for fewer pages at a time.
func (w *keySummarizer) allocate() (err error) {
	if w.seq.kv.ColdPages() == 0 {
		return nil
	}
	for w.maxPages = segment.MaxPages; w.maxPages > 0; w.maxPages /= 4 {
		if w.frame, err = tiering.Alloc(w.seq.model.budget, tiering.KVFrames, w.maxPages*w.seq.model.kvReader.LargestPage()); err == nil {
			return nil
		}
	}
	return err
}

func (w *keySummarizer) free() {
	if w.frame != nil {
		w.frame.Free()
	}
}

// summarize computes the missing summaries of a layer.
func (w *keySummarizer) summarize(layer, heads int) error {
	first := w.seq.summaries.Ready(layer)
	each := w.cache.PageBlocks()
	page := 0
	for _, part := range w.seq.kv.Cold() {
		for at := 0; at < part.Pages; at += w.maxPages {
			n := min(w.maxPages, part.Pages-at)
			if err := w.summarizeCold(layer, heads, first, (page+at)*each, n, part, at); err != nil {
				return err
			}
		}
		page += part.Pages
	}
	w.summarizeHot(layer, heads, max(first, page*each))
	w.seq.summaries.SetReady(layer, first, w.end)
	return nil
}

// summarizeHot computes the summaries of blocks in memory.
func (w *keySummarizer) summarizeHot(layer, heads, from int) {
	w.pass.m.workers.Run(max(0, w.end-from)*heads, func(part, worker int) {
		block, head := from+part/heads, part%heads
		w.seq.summaries.Summarize(w.pass.workers[worker].summarizer, layer, head, block, w.seq.kv.HeadBlock(layer, head, block))
	})
}

// summarizeCold reads some pages of a part and computes the summaries of their blocks from first
// on. block is the index of the first block in these pages.
func (w *keySummarizer) summarizeCold(layer, heads, first, block, pages int, part kv.Span, at int) error {
	size, each := w.cache.PageBytes(layer), w.cache.PageBlocks()
	if block+pages*each <= first {
		return nil
	}
	data := w.frame.Bytes()[:pages*size]
	scheduler := w.seq.model.scheduler
	grant, _ := scheduler.Admit(prefetch.Awaited, len(data))
	err := part.ReadPages(layer, at, size, data)
	scheduler.Done(grant)
	if err != nil {
		return err
	}
	shape := w.cache.Shape()
	skip := max(0, first-block)
	w.pass.m.workers.Run((pages*each-skip)*heads, func(part, worker int) {
		i, head := skip+part/heads, part%heads
		headBlock := shape.HeadBlock(data[i/each*size:][:size], layer, head, i%each)
		w.seq.summaries.Summarize(w.pass.workers[worker].summarizer, layer, head, block+i, headBlock)
	})
	return nil
}
