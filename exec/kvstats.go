package exec

import (
	"time"

	"github.com/llmrun/llmrun/kv"
)

// KVStats says where keys and values are and what was read and written of them.
type KVStats struct {
	kv.Stats
	Read    int64         // bytes from flash
	Stalled time.Duration // that attention waited for them
	Stalls  int           // how many times it did
}

// KVStats returns where keys and values are.
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

// SetHot changes how much memory keys and values take while older ones can go to
// flash, between two passes. What is too much goes there at once.
func (m *Model) SetHot(bytes int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	return m.cache.SetHot(bytes)
}
