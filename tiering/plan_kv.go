package tiering

// Keys and values that may go to flash need little memory: room for those that
// are being written and for some on their way. What they get beyond that is a
// matter of what pays most: a byte of weights is read for every token, and so is
// a byte of keys and values, once the conversation is that long. So weights come
// first, and of what is above the minimum keys and values get a share.

const (
	// kvDivisor is the part, one in so many, of the memory above the minimum that
	// keys and values get where weights do not all fit.
	kvDivisor = 8
	// The ring for keys and values is one part in so many of the budget, between
	// two bounds.
	kvRingDivisor = 64
	kvRingLow     = 1 << 20
	kvRingHigh    = 8 << 20
	// kvMinPages is how many pages of a layer the ring holds at least.
	kvMinPages = 4
	// selectedPages is how many pages a selection has on its way at once.
	selectedPages = 16
	// kvBuffer is what is written at once.
	kvBuffer = 256 << 10
	// kvExtraPages is how many pages a conversation has in memory besides those of a
	// chunk of a prompt: one that is not full, and those that are on their way out.
	kvExtraPages = 2
)

// makeKV makes a plan in which keys and values may be on flash.
func (m *planner) makeKV(r Rates) (*Plan, error) {
	full := m.kv(m.Context)
	if m.KVHot == 0 || m.KVHot >= full {
		if p, err := m.attempt(full, r); err == nil && p.Resident() && p.ExpertSlots == m.experts() {
			return p, nil
		}
	}
	least := min(full, m.kv(m.leastHot()))
	base, err := m.attempt(least, r)
	if err != nil || least == full {
		return base, err
	}
	if m.KVHot > 0 {
		return m.attempt(min(full, max(least, m.KVHot)), r)
	}
	if m.Budget <= 0 {
		return base, nil // only asked to be on flash is anything there
	}
	spare := m.Budget - base.Total()
	share := m.Budget - least - m.kvRing()
	if !base.Resident() || base.ExpertSlots < m.experts() {
		spare = max(0, share-m.minimumOthers(base)) / kvDivisor
	}
	for ; spare > 0; spare = spare / 4 * 3 {
		p, err := m.attempt(min(full, least+spare), r)
		if err == nil && p.Resident() == base.Resident() {
			return p, nil
		}
	}
	return base, nil
}

// minimumOthers returns what a plan cannot do without besides keys and values.
func (m *planner) minimumOthers(p *Plan) int64 {
	return p.By[Code] + p.By[Heap] + pageUp(m.OtherPinned) + m.scratch(m.lowChunk()) + m.minimumWeights()
}

// attempt makes a plan that gives keys and values so many bytes of memory.
func (m *planner) attempt(hot int64, r Rates) (*Plan, error) {
	try := *m
	try.hot = hot
	return try.make(r)
}

// leastHot returns how many tokens of a conversation are in memory at least.
func (m *planner) leastHot() int { return m.Chunk + kvExtraPages*max(1, m.KVPageTokens) }

// kvRing is the memory in which keys and values come from flash and go there.
func (m *planner) kvRing() int64 {
	ring := int64(kvRingHigh)
	if m.Budget > 0 {
		ring = min(ring, max(kvRingLow, m.Budget/kvRingDivisor))
	}
	return pageUp(max(ring, kvMinPages*m.KVUnit)+m.KVUnit) + kvBuffer + m.selectedBytes()
}

// selectedBytes is the memory in which single pages come that a selection has taken.
func (m *planner) selectedBytes() int64 {
	if m.KVSummaryPerToken == 0 {
		return 0
	}
	return selectedPages * (pageUp(m.KVUnit) + pageUp(1))
}

// countCold says in a plan what of keys and values is on flash.
func (m *planner) countCold(p *Plan) {
	if m.hot >= m.kv(m.Context) {
		return
	}
	p.KVHot = m.hot - m.KVFixed
	p.KVRing = m.kvRing() - kvBuffer - m.selectedBytes() - pageUp(m.KVUnit)
	p.KVCold = m.kv(m.Context) - m.hot
}
