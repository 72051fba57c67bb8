package exec

import (
	"slices"

	"github.com/llmrun/llmrun/tiering"
)

// promoteStep is about how many bytes of weights a pass moves before it begins: of
// small sections several, of others one.
const promoteStep = 64 << 20

// promote moves weights from the mapping of the file, with which the first token
// comes soonest, to memory in huge pages, with which all others do: some before
// every pass but the first. In between, each section is in one of the two. The
// model is locked.
func (m *Model) promote() {
	r := m.residency
	if r == nil || !r.Settling {
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
		if err := r.Own(l, m.workers); err != nil {
			// There is no room, or the file has become shorter, which the pass will see
			// if it matters: what is mapped stays so.
			r.Settling = false
			return
		}
		m.frames[slices.Index(m.frames, old)] = l.Frame
		moved += l.Size
	}
	r.Settling, r.Mapped = false, false
	tiering.JoinPages(m.frames)
}
