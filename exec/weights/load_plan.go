package weights

import (
	"fmt"

	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/tiering"
)

// applyPlan changes what is loaded so that it follows a plan: of each section its
// first part stays in memory, and the rest will pass through it. Norms and biases
// lie apart and always stay. An embedding whose rows are only looked up is not
// loaded.
func (ld *Loader) applyPlan(w *Weights, plans []Layout, plan *tiering.Plan) ([]Layout, error) {
	file, ok := ld.Tensors.Source.(*pack.File)
	if !ok {
		if plan.Resident() {
			return plans, nil
		}
		return nil, fmt.Errorf("%w: %s does not fit into the budget as it is: only a pack can be read piece by piece; import it first", tiering.ErrBudget, ld.Tensors.Path)
	}
	if !plan.Resident() {
		if err := file.BypassCache(); err != nil {
			return nil, err
		}
	}
	ld.Residency = &Residency{w: w, File: file, budget: ld.Budget, layers: len(ld.Spec.Layers)}
	if err := ld.Residency.Check(plan); err != nil {
		return nil, err
	}
	cacheExperts := expertsInPack(plans)
	vectors := Layout{Name: "norms and biases"}
	kept := plans[:0]
	for _, l := range plans {
		switch {
		case l.section == nil:
			if !plan.Resident() {
				return nil, fmt.Errorf("%w: %s: %s does not lie in the pack as it is used; import the model again", tiering.ErrBudget, ld.Tensors.Path, l.Name)
			}
		case l.Kind == expertLayout:
			if cacheExperts {
				ld.CachedExperts = append(ld.CachedExperts, l)
				continue
			}
		case l.Kind == EmbeddingLayout:
			w.Embed.leaveOnFlash(&l)
			continue
		case l.Kind == EndsLayout:
			w.Embed.noteSection(&l)
			l.moveVectors(&vectors)
			l.pinPrefix(plan.HeadPinned)
		default:
			l.moveVectors(&vectors)
			l.pinPrefix(plan.Pinned[l.Layer])
		}
		kept = append(kept, l)
	}
	return append(kept, vectors), nil
}

// moveVectors moves the layout's vectors to another one: they stay in memory
// whatever becomes of the matrices between them.
func (l *Layout) moveVectors(vectors *Layout) {
	places := l.Places[:0:0]
	for _, p := range l.Places {
		if p.Vector != nil {
			vectors.Places = append(vectors.Places, p)
		} else {
			places = append(places, p)
		}
	}
	l.Places = places
}

// pinPrefix makes the layout keep so many bytes of its section, a whole number of
// blocks; and a little more where that would end within a unit of a matrix. It
// says of each matrix which rows are not kept.
func (l *Layout) pinPrefix(pinned int64) {
	l.streamFrom = l.pinnedBytes(pinned)
	l.Size = l.streamFrom
	for i := range l.Places {
		p := &l.Places[i]
		if p.off+p.Bytes() <= l.streamFrom {
			p.rest = streamedRows{}
			continue
		}
		_, unit := p.unit()
		held := min((max(0, l.streamFrom-p.off)+unit-1)/unit*unit, p.Bytes())
		if held > 0 {
			l.Size = max(l.Size, p.off+held)
		}
		p.rest = streamedRows{Run: l.Layer, Offset: int64(p.off + held - l.streamFrom)}
	}
}

// pinnedBytes returns how much of its section the layout keeps of so many bytes: whole
// blocks, or all.
func (l *Layout) pinnedBytes(pinned int64) int {
	if pinned >= int64(l.SectionSize) {
		return l.SectionSize
	}
	return int(pinned / pack.BlockBytes * pack.BlockBytes)
}

// unit returns what the placement's matrix can be cut into.
func (p *Placement) unit() (rows, bytes int) {
	m := Matrix{Type: p.Slice.Type, Rows: p.Slice.Rows, Cols: p.Slice.Cols, Tiled: p.tile}
	return m.Unit()
}
