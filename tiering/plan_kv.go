package tiering

import (
	"cmp"
	"errors"
	"sort"
)

// KV that may move to flash needs little memory: the pages that are being written and the
// buffers for reading. What more of it pays depends on the model: a byte of dense weights saves
// a read for every token, a byte of KV only for tokens that are so deep in the conversation, and
// a byte of experts only for tokens that use its expert. The plan therefore tries divisions and
// takes the one with which a conversation that fills the context takes the least time.

const (
	// The ring for KV is one part in kvRingDivisor of the budget without the fixed parts of sections,
	// between kvRingLow and kvRingHigh.
	kvRingDivisor = 64
	kvRingLow     = 1 << 20
	kvRingHigh    = 8 << 20
	// selectedRingHigh is the upper limit for page selection, which keeps pages in the ring.
	selectedRingHigh = 32 << 20
	// kvMinPages is the minimum number of pages of a layer in the ring.
	kvMinPages = 4
	// selectedPages is the number of selected pages in flight.
	selectedPages = 16
	// kvBuffer is the size of a write.
	kvBuffer = 256 << 10
	// kvExtraPages is the number of pages in memory besides those of a prefill chunk:
	// a partly filled one, and one being written to flash.
	kvExtraPages = 2
)

// makeKV makes a plan with KV on flash if necessary.
func (m *planner) makeKV(r Rates) (*Plan, error) {
	full := m.kv(m.Context)
	least := min(full, m.kv(m.leastHot()))
	if whole := m.hotWithin(m.Context); whole > least && m.Budget > 0 {
		p, err := m.divideKV(min(full, whole), full, r)
		if err == nil || m.mayShrink {
			return p, err
		}
		needed := min(full, max(least, m.hotWithin(m.KVPrompt)))
		if p, err = m.divideKV(needed, full, r); err != nil {
			m.adviseWrites(err, least, needed)
		}
		return p, err
	}
	return m.divideKV(least, full, r)
}

// divideKV makes a plan with at least so many of the full bytes of KV in memory.
func (m *planner) divideKV(least, full int64, r Rates) (*Plan, error) {
	if m.KVHot > 0 && m.KVHot < full {
		return m.attempt(min(full, max(least, m.KVHot)), r)
	}
	whole, refusal := m.attempt(full, r)
	if refusal == nil && whole.Resident() && whole.ExpertSlots == m.experts() || least == full {
		return whole, refusal
	}
	base, err := m.attempt(least, r)
	switch {
	case err != nil && refusal == nil:
		return whole, nil // the buffers for KV on flash are larger than the KV
	case err != nil:
		return nil, lowerMinimum(err, refusal)
	case m.Budget <= 0:
		return base, nil // without a budget, only an explicit KVHot moves KV to flash
	}
	return m.fastest(base, least, full, r), nil
}

// lowerMinimum returns the refusal with the lower minimum.
func lowerMinimum(a, b error) error {
	var first, second *MinimumError
	if errors.As(a, &first) && errors.As(b, &second) && second.Minimum < first.Minimum {
		return b
	}
	return a
}

// attempt makes a plan with the given memory for KV.
func (m *planner) attempt(hot int64, r Rates) (*Plan, error) {
	try := *m
	try.hot = hot
	return try.make(r)
}

// leastHot returns the minimum number of tokens whose KV is in memory.
func (m *planner) leastHot() int { return m.Chunk + kvExtraPages*max(1, m.KVPageTokens) }

// Ring returns the size of a ring that holds the pages that the selection picks of a short context,
// and as many more as are read at once, within limits. A smaller one reads a third of a context of
// 4K tokens for each token.
func (s Selection) Ring(kvBytesPerToken int64) int64 {
	if s.Fraction == 0 {
		return kvRingHigh
	}
	return max(kvRingHigh, min(selectedRingHigh, int64(s.Always+s.Least)*kvBytesPerToken*4/3))
}

// kvRing returns the memory of the ring for reading KV from flash.
func (m *planner) kvRing() int64 {
	ring := m.Selection.Ring(m.KVBytesPerToken)
	if m.Budget > 0 {
		ring = min(ring, max(kvRingLow, (m.Budget-m.fixedSections())/kvRingDivisor))
	}
	return PageUp(max(ring, kvMinPages*m.KVUnit) + m.KVUnit)
}

// kvFrames returns the memory of the buffers for reading KV from flash and writing it, without
// residentRing.
func (m *planner) kvFrames() int64 {
	frames := kvBuffer + m.selectedBytes()
	if m.residentRing() == 0 {
		frames += m.kvRing()
	}
	return frames
}

// residentRing returns the memory of the ring for KV if a plan needs it only while no weights are
// streamed. Picked pages always need it.
func (m *planner) residentRing() int64 {
	if !m.KVInStream || m.KVSummaryPerToken > 0 || m.hot >= m.kv(m.Context) {
		return 0
	}
	return m.kvRing()
}

// streamWithKV is stream. If it would pin everything, KV needs a ring of its own.
func (m *planner) streamWithKV(p *Plan, memory, ring int64) {
	before := *p
	m.stream(p, memory)
	if p.KVInStream = ring > 0 && !m.pinsAll(p); ring > 0 && !p.KVInStream {
		*p = before
		p.By[KVFrames] += ring
		m.stream(p, max(0, memory-ring))
	}
}

// pinsAll reports whether a plan pins all sections.
func (m *planner) pinsAll(p *Plan) bool {
	for i := range m.Layers {
		if p.Pinned[i] < m.Layers[i].Bytes {
			return false
		}
	}
	return p.HeadPinned == m.Head.Bytes
}

// selectedBytes returns the memory of the buffers for selected pages.
func (m *planner) selectedBytes() int64 {
	if m.KVSummaryPerToken == 0 {
		return 0
	}
	return selectedPages * (PageUp(m.KVUnit) + PageUp(1))
}

// countCold records the KV on flash in a plan.
func (m *planner) countCold(p *Plan) {
	if m.hot >= m.kv(m.Context) {
		return
	}
	p.KVHot = m.hot - m.KVFixed
	p.KVRing = m.kvRing() - PageUp(m.KVUnit)
	p.KVCold = m.kv(m.Context) - m.hot
	if m.hotWithin(m.Context) > m.hot {
		p.KVDepth = (m.hotPages(m.hot) + m.coldPages()) * max(1, m.KVPageTokens)
	}
}

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
