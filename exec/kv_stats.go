package exec

import (
	"time"

	"github.com/llmrun/llmrun/kv"
)

// KVStats counts KV pages in memory and on flash, and the bytes read and written.
type KVStats struct {
	kv.Stats
	Read    int64         // bytes read from flash
	Cold    int64         // bytes on flash, summed over the passes that could read them
	Stalled time.Duration // time that attention waited for these reads
	Stalls  int           // number of these waits
}

// KVStats returns the statistics of the KV cache.
func (m *Model) KVStats() KVStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return KVStats{}
	}
	s, picked := m.kvReader.Stats(), m.pickedPages.Stats()
	return KVStats{
		Stats: m.cache.Stats(), Read: s.Bytes + picked.Bytes, Cold: m.coldBytes,
		Stalled: s.Stalled + picked.Stalled, Stalls: s.Stalls + picked.Stalls,
	}
}

// EmbeddingStalled returns how long passes waited for embedding rows on flash.
func EmbeddingStalled(m *Model) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.embedding == nil {
		return 0
	}
	stalled := m.embedding.Stalled
	if table := m.embedding.Table; table != nil {
		stalled += table.Stalled
	}
	return stalled
}

// countCold adds the bytes on flash of a batch's sequences to the statistics.
func (m *Model) countCold(b *Batch) {
	for i := range b.runs {
		m.coldBytes += int64(b.runs[i].seq.kv.ColdPages()*m.cache.PageTokens()) * m.KVBytesPerToken()
	}
}

// SetHot changes, between two passes, the limit of KV bytes in memory above which older pages
// spill to flash. Pages above the new limit spill at once.
func (m *Model) SetHot(bytes int64) error {
	return m.Pause(func(p Paused) error { return p.SetHot(bytes) })
}

// SetHot is [Model.SetHot].
func (p Paused) SetHot(bytes int64) error {
	err := p.m.cache.SetHot(bytes)
	p.m.cache.Compact()
	return err
}

// Spillable returns the most bytes of memory that SetHot can return.
func (m *Model) Spillable() int64 { return m.cache.Spillable() }

// SpillNeed returns the bytes of KV that must be written to flash before the sequence has n tokens, and
// those of its pages that are written.
func (s *Sequence) SpillNeed(n int) (need, written int64) { return s.kv.SpillNeed(n) }
