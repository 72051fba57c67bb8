package exec

import (
	"time"

	"github.com/llmrun/llmrun/kv"
)

// KVStats counts KV pages in memory and on flash, and the bytes read and written.
type KVStats struct {
	kv.Stats
	Read    int64         // bytes read from flash
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
	s, selected := m.kvReader.Stats(), m.selectedPages.Stats()
	return KVStats{
		Stats: m.cache.Stats(), Read: s.Bytes + selected.Bytes,
		Stalled: s.Stalled + selected.Stalled, Stalls: s.Stalls + selected.Stalls,
	}
}

// SetHot changes, between two passes, the limit of KV bytes in memory above which older pages
// spill to flash. Pages above the new limit spill at once.
func (m *Model) SetHot(bytes int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	return m.cache.SetHot(bytes)
}
