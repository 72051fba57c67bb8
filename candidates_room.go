package llmrun

import "github.com/llmrun/llmrun/exec/draft"

// roomTokens is for how many tokens of an answer a candidate gets room.
const roomTokens = 256

// makeRoom gives memory of weights to the candidates, if that makes all of them together faster: where weights are streamed, a
// pass takes as long as it reads, and n candidates that share it need 1/n of the passes.
func (c *candidates) makeRoom() *promptRoom {
	e := c.session.engine
	m, r := &e.mem, &promptRoom{engine: e}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.current == nil || m.current.StreamedPerToken == 0 || m.budget.Limit() == 0 {
		return r
	}
	each := c.bytes()
	fit := max(1, (m.budget.Limit()-m.budget.Usage().Total)/each)
	// With n candidates instead of those that fit, passes read (n-fit)*each more bytes.
	if m.current.StreamedPerToken < fit*each {
		return r
	}
	for more := int64(c.options.N) - fit; more > 0; more /= 2 {
		if r.replan(more*each) == nil {
			return r
		}
	}
	return r
}

// bytes returns about what a candidate takes that runs beside others: heap, keys and values from the last page of the prompt on,
// recurrent state, and look-up.
func (c *candidates) bytes() int64 {
	e := c.session.engine
	tokens := roomTokens
	if most := c.options.MaxTokens; most > 0 {
		tokens = min(tokens, most)
	}
	page := max(1, e.mem.shape.KVPageTokens)
	pages := 1 + (tokens+page-1)/page
	bytes := candidateHeap(e.info.Vocab, len(c.ids)+tokens) + int64(pages*page)*e.mem.shape.KVBytesPerToken + e.mem.shape.KVFixed
	if e.mayDraft {
		bytes += draft.LookupBytes(min(e.limit, lookupTokens))
	}
	return bytes
}
