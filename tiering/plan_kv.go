package tiering

// KV that may move to flash needs little memory: the pages that are being written and
// the buffers for reading. Every token reads each byte of weights on flash, and each
// byte of KV on flash only after the conversation has become that long. Therefore
// weights have priority, and KV gets a fraction of the memory above the minimum.

const (
	// KV gets one part in kvDivisor of the memory above the minimum if the weights do
	// not fit completely.
	kvDivisor = 8
	// The ring for KV is one part in kvRingDivisor of the budget, between kvRingLow
	// and kvRingHigh.
	kvRingDivisor = 64
	kvRingLow     = 1 << 20
	kvRingHigh    = 8 << 20
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
		return base, nil // without a budget, only an explicit KVHot moves KV to flash
	}
	spare := m.Budget - base.Total()
	others := m.Budget - least - m.kvRing()
	if !base.Resident() || base.ExpertSlots < m.experts() {
		spare = max(0, others-m.minimumOthers(base)) / kvDivisor
	}
	for ; spare > 0; spare = spare / 4 * 3 {
		p, err := m.attempt(min(full, least+spare), r)
		if err == nil && p.Resident() == base.Resident() {
			return p, nil
		}
	}
	return base, nil
}

// minimumOthers returns the minimum memory of everything except KV.
func (m *planner) minimumOthers(p *Plan) int64 {
	return p.By[Code] + p.By[Heap] + pageUp(m.OtherPinned) + m.scratch(m.lowChunk()) + m.minimumWeights()
}

// attempt makes a plan with the given memory for KV.
func (m *planner) attempt(hot int64, r Rates) (*Plan, error) {
	try := *m
	try.hot = hot
	return try.make(r)
}

// leastHot returns the minimum number of tokens whose KV is in memory.
func (m *planner) leastHot() int { return m.Chunk + kvExtraPages*max(1, m.KVPageTokens) }

// kvRing returns the memory of all buffers for reading KV from flash and writing it.
func (m *planner) kvRing() int64 {
	ring := int64(kvRingHigh)
	if m.Budget > 0 {
		ring = min(ring, max(kvRingLow, m.Budget/kvRingDivisor))
	}
	return pageUp(max(ring, kvMinPages*m.KVUnit)+m.KVUnit) + kvBuffer + m.selectedBytes()
}

// selectedBytes returns the memory of the buffers for selected pages.
func (m *planner) selectedBytes() int64 {
	if m.KVSummaryPerToken == 0 {
		return 0
	}
	return selectedPages * (pageUp(m.KVUnit) + pageUp(1))
}

// countCold records the KV on flash in a plan.
func (m *planner) countCold(p *Plan) {
	if m.hot >= m.kv(m.Context) {
		return
	}
	p.KVHot = m.hot - m.KVFixed
	p.KVRing = m.kvRing() - kvBuffer - m.selectedBytes() - pageUp(m.KVUnit)
	p.KVCold = m.kv(m.Context) - m.hot
}
