package exec

import (
	"fmt"

	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/tiering"
)

// divide changes what is loaded so that it follows a plan: of each section its
// first part stays in memory, and the rest will pass through it. Norms and biases
// lie apart and always stay. An embedding whose rows are only looked up is not
// loaded.
func (ld *loader) divide(w *weights, plans []layout, plan *tiering.Plan) ([]layout, error) {
	file, ok := ld.ts.src.(*pack.File)
	if !ok {
		if plan.Resident() {
			return plans, nil
		}
		return nil, fmt.Errorf("%w: %s does not fit into the budget as it is: only a pack can be read piece by piece; import it first", tiering.ErrBudget, ld.ts.path)
	}
	if !plan.Resident() {
		if err := file.BypassCache(); err != nil {
			return nil, err
		}
	}
	ld.parts = &residency{w: w, file: file, budget: ld.budget, layers: len(ld.spec.Layers)}
	if err := ld.parts.check(plan); err != nil {
		return nil, err
	}
	cacheExperts := coldExperts(plans)
	vectors := layout{name: "norms and biases"}
	kept := plans[:0]
	for _, l := range plans {
		switch {
		case l.section == nil:
			if !plan.Resident() {
				return nil, fmt.Errorf("%w: %s: %s does not lie in the pack as it is used; import the model again", tiering.ErrBudget, ld.ts.path, l.name)
			}
		case l.kind == expertLayout:
			if cacheExperts {
				ld.cold = append(ld.cold, l)
				continue
			}
		case l.kind == embeddingLayout:
			w.embed.leave(&l)
			continue
		case l.kind == endsLayout:
			w.embed.remember(&l)
			l.setApart(&vectors)
			l.cut(plan.HeadPinned)
		default:
			l.setApart(&vectors)
			l.cut(plan.Pinned[l.layer])
		}
		kept = append(kept, l)
	}
	return append(kept, vectors), nil
}

// setApart moves the layout's vectors to another one: they stay in memory
// whatever becomes of the matrices between them.
func (l *layout) setApart(vectors *layout) {
	places := l.places[:0:0]
	for _, p := range l.places {
		if p.vector != nil {
			vectors.places = append(vectors.places, p)
		} else {
			places = append(places, p)
		}
	}
	l.places = places
}

// cut makes the layout keep so many bytes of its section, a whole number of
// blocks; and a little more where that would end within a unit of a matrix. It
// says of each matrix which rows are not kept.
func (l *layout) cut(pinned int64) {
	l.from = l.keeps(pinned)
	l.size = l.from
	for i := range l.places {
		p := &l.places[i]
		if p.off+p.bytes() <= l.from {
			p.rest = streamedRows{}
			continue
		}
		_, unit := p.unit()
		held := min((max(0, l.from-p.off)+unit-1)/unit*unit, p.bytes())
		if held > 0 {
			l.size = max(l.size, p.off+held)
		}
		p.rest = streamedRows{run: l.layer, off: int64(p.off + held - l.from)}
	}
}

// keeps returns how much of its section the layout keeps of so many bytes: whole
// blocks, or all.
func (l *layout) keeps(pinned int64) int {
	if pinned >= int64(l.sectionSize) {
		return l.sectionSize
	}
	return int(pinned / pack.BlockBytes * pack.BlockBytes)
}

// unit returns what the placement's matrix can be cut into.
func (p *placement) unit() (rows, bytes int) {
	m := Matrix{Type: p.slot.typ, Rows: p.slot.rows, Cols: p.slot.cols, Tiled: p.tile}
	return m.unit()
}
