package exec

import (
	"slices"

	"github.com/llmrun/llmrun/tiering"
)

// promoteStep is the approximate number of bytes that promote moves before one pass: several
// small sections or one large section.
const promoteStep = 64 << 20

// Promoting reports whether weights are still to be moved from the mapped file, which takes some of the time of the next
// passes.
func (m *Model) Promoting() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.residency != nil && m.residency.Promoting
}

// promote moves weights from the mapped file to anonymous memory in huge pages. With the mapping,
// the first token needs no copy; with huge pages, the following tokens are faster. It moves some
// sections before every pass but the first; each section is always in exactly one of the two
// places. The caller holds m.mu.
func (m *Model) promote() {
	r := m.residency
	if r == nil || !r.Promoting {
		return
	}
	if !r.Used {
		r.Used = true
		return
	}
	moved := 0
	for i := range r.Sections {
		l := &r.Sections[i]
		if !l.Mapped {
			continue
		}
		if moved >= promoteStep {
			return
		}
		old := l.Frame
		err := r.Promote(l, m.workers)
		m.frames[slices.Index(m.frames, old)] = l.Frame
		if err != nil {
			// The budget has no room, or the file has changed; a pass that uses the changed
			// part returns that error. The remaining sections stay mapped.
			r.Promoting = false
			return
		}
		moved += l.Size
	}
	r.Promoting, r.Mapped = false, false
	tiering.JoinPages(m.frames)
}
