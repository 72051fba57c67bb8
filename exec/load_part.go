package exec

import (
	"fmt"

	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/tiering"
)

// divide changes what is loaded so that it follows a plan: of each section its
// first part stays in memory, and the rest becomes a run of the stream. Norms and
// biases always stay. An embedding whose rows are only looked up is not loaded.
func (ld *loader) divide(w *weights, plans []layout, plan *tiering.Plan) ([]layout, error) {
	file, ok := ld.ts.src.(*pack.File)
	if !ok {
		if plan.Resident() {
			return plans, nil
		}
		return nil, fmt.Errorf("%w: %s does not fit into the budget as it is: only a pack can be read piece by piece; import it first", tiering.ErrBudget, ld.ts.path)
	}
	if len(plan.Pinned) != len(ld.spec.Layers) {
		return nil, fmt.Errorf("exec: a plan for %d layers does not suit a model of %d", len(plan.Pinned), len(ld.spec.Layers))
	}
	if err := file.BypassCache(); err != nil {
		return nil, err
	}
	var vectors layout
	kept := plans[:0]
	for _, l := range plans {
		switch {
		case l.section == nil:
			if !plan.Resident() {
				return nil, fmt.Errorf("%w: %s: %s does not lie in the pack as it is used; import the model again", tiering.ErrBudget, ld.ts.path, l.name)
			}
		case l.kind == expertLayout:
			// Experts are all in memory.
		case l.kind == embeddingLayout:
			w.embed.leave(&l)
			continue
		case l.kind == endsLayout:
			if run := ld.cut(&l, plan.HeadPinned, len(ld.spec.Layers), &vectors); run.Size > 0 {
				ld.seq.Tail = []prefetch.Run{run}
			}
			w.embed.remember(&l)
		default:
			ld.seq.Body = append(ld.seq.Body, ld.cut(&l, plan.Pinned[l.layer], l.layer, &vectors))
		}
		kept = append(kept, l)
	}
	if len(vectors.places) > 0 {
		vectors.name = "norms and biases"
		kept = append(kept, vectors)
	}
	return kept, nil
}

// cut keeps the first part of a section and returns the run of the rest. What is
// kept ends with a unit of a matrix, as long as that is a block at most beyond
// what the plan says; the run begins with a whole block.
func (ld *loader) cut(l *layout, pinned int64, run int, vectors *layout) prefetch.Run {
	pinned = pinned / pack.BlockBytes * pack.BlockBytes
	if pinned >= int64(l.sectionSize) {
		return prefetch.Run{From: l.section, Off: int64(l.sectionSize)}
	}
	from := int(pinned)
	l.size = from
	places := l.places[:0:0]
	for _, p := range l.places {
		if p.off+p.bytes() <= from {
			places = append(places, p)
			continue
		}
		if p.vector != nil {
			vectors.places = append(vectors.places, p)
			continue
		}
		m := p.matrixOver(nil)
		_, unit := m.unit()
		ld.unit = max(ld.unit, unit)
		held := (max(0, from-p.off) + unit - 1) / unit * unit
		l.size = max(l.size, p.off+held)
		p.matrix.rest = streamedRows{run: run, off: int64(p.off + held - from)}
		places = append(places, p)
	}
	l.places = places
	return prefetch.Run{From: l.section, Off: pinned, Size: int64(l.sectionSize) - pinned}
}
