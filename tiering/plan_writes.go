package tiering

import (
	"cmp"
	"errors"
	"sort"
)

// The bytes that may be written to flash are limited, by the user or by the disk. KV that exceeds
// the limit stays in memory, so the limit raises the least memory for KV. It cannot be exceeded by
// a prompt whose length is known; a context that is longer than the conversation may exceed it.

// coldPages returns the number of pages that Need.KVWrites permits on flash.
func (m *planner) coldPages() int { return int(m.KVWrites / max(1, m.KVPageOnFlash)) }

// hotPages returns the number of pages in so many bytes of KV.
func (m *planner) hotPages(bytes int64) int {
	return int((bytes - m.KVFixed) / max(1, m.kvOf(1, m.KVBytesPerToken)))
}

// hotWithin returns the least memory for the KV of a number of tokens of which Need.KVWrites bytes
// may be written to flash; 0 without a limit.
func (m *planner) hotWithin(tokens int) int64 {
	if m.KVWrites <= 0 || m.KVPageOnFlash <= 0 {
		return 0
	}
	page := max(1, m.KVPageTokens)
	return m.kv(max(0, roundUp(tokens, page)-m.coldPages()*page))
}

// adviseWrites records in a refusal how many writes of KV would suffice. The refused plan has
// needed bytes of KV in memory; a plan has at least least.
func (m *planner) adviseWrites(refusal error, least, needed int64) {
	var refused *MinimumError
	if !errors.As(refusal, &refused) {
		return
	}
	from, to := m.hotPages(least), m.hotPages(needed)
	hot := from - 1 + sort.Search(to-from+1, func(i int) bool {
		_, err := m.attempt(m.kv((from+i)*max(1, m.KVPageTokens)), Rates{})
		return err != nil
	})
	if hot >= from {
		page := max(1, m.KVPageTokens)
		refused.KVWrites = int64(roundUp(m.KVPrompt, page)/page-hot) * m.KVPageOnFlash
	}
}

// LeastDepth returns the number of tokens of a context that every plan holds within Need.KVWrites.
func LeastDepth(s Shape, n Need, context int) int {
	m := planner{Shape: s, Need: n}
	if m.KVWrites <= 0 || m.KVPageOnFlash <= 0 || !m.KVCold {
		return context
	}
	m.Chunk = cmp.Or(m.Chunk, DefaultChunk)
	if !m.FixedChunk {
		m.Chunk = min(m.Chunk, ChunkOf(context))
	}
	return min(context, m.leastHot()+m.coldPages()*max(1, m.KVPageTokens))
}
