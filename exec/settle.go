package exec

import (
	"slices"

	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/tiering"
)

// settleStep is about how many bytes of weights a pass moves before it begins: of
// small sections several, of others one.
const settleStep = 64 << 20

// settlePart is how much of them one thread copies at a time.
const settlePart = 2 << 20

// mapFirst decides whether weights are used where they lie in the file until the
// first pass is over: if all of them stay in memory, the system has them in its
// page cache, and the budget leaves room for what moving them takes.
func (ld *loader) mapFirst(plans []layout, plan *tiering.Plan) bool {
	if ld.parts == nil || !plan.Resident() {
		return false
	}
	if limit := ld.budget.Limit(); limit != 0 && limit-plan.Total() < tiering.OwnNeeds() {
		return false
	}
	return !slices.ContainsFunc(plans, func(l layout) bool {
		return l.section != nil && l.kind != expertLayout && !ld.parts.file.SectionCached(l.index)
	})
}

// settle moves weights from the mapping of the file, with which the first token
// comes soonest, to memory in huge pages, with which all others do: some before
// every pass but the first. In between, each section is in one of the two. The
// model is locked.
func (m *Model) settle() {
	r := m.parts
	if r == nil || !r.settling {
		return
	}
	if !r.used {
		r.used = true
		return
	}
	moved := 0
	for i := range r.sections {
		l := &r.sections[i]
		if !l.mapped {
			continue
		}
		if moved >= settleStep {
			return
		}
		old := l.frame
		if err := r.own(l, m.workers); err != nil {
			// There is no room, or the file has become shorter, which the pass will see
			// if it matters: what is mapped stays so.
			r.settling = false
			return
		}
		m.frames[slices.Index(m.frames, old)] = l.frame
		moved += l.size
	}
	r.settling, r.mapped = false, false
	tiering.JoinPages(m.frames)
}

// own moves a section.
func (r *residency) own(l *layout, workers *threadpool.Workers) (err error) {
	defer func() {
		if fault := faultOf(recover()); fault != nil {
			err = fault
		}
	}()
	old := l.frame
	frame, err := tiering.Own(old, tiering.Pinned, l.sectionSize, func(dst, src []byte) {
		workers.Run((len(src)+settlePart-1)/settlePart, func(part, _ int) {
			lo := part * settlePart
			hi := min(lo+settlePart, len(src))
			copy(dst[lo:hi], src[lo:hi])
		})
	})
	if err != nil {
		return err
	}
	l.frame, l.mapped, l.whole = frame, false, nil
	err = r.attach(l)
	old.Free()
	return err
}

// attach points the weights to where their section is now.
func (r *residency) attach(l *layout) error {
	if err := l.attach(l.frame.Bytes()); err != nil {
		return err
	}
	if r.w.tied && l.kind == endsLayout {
		r.w.head.Matrix = r.w.embed.Matrix
	}
	return nil
}
