package weights

import (
	"fmt"

	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/tiering"
)

// applyPlan changes the layouts so that they follow a plan: the first part of each section
// stays in memory and the rest is streamed. Norms and biases move to a layout of their own,
// which always stays in memory. An embedding that is not the output matrix is not loaded.
func (ld *Loader) applyPlan(w *Weights, layouts []Layout, plan *tiering.Plan) ([]Layout, error) {
	file, ok := ld.Tensors.Source.(*pack.File)
	if !ok {
		if plan.Resident() {
			return layouts, nil
		}
		return nil, fmt.Errorf("%w: %s does not fit into the budget: only a pack can be streamed; import it first", tiering.ErrBudget, ld.Tensors.Path)
	}
	if !plan.Resident() {
		if err := file.BypassCache(); err != nil {
			return nil, err
		}
		if err := ld.checkSections(layouts); err != nil {
			return nil, err
		}
	}
	ld.Residency = &Residency{w: w, File: file, budget: ld.Budget, layers: len(ld.Spec.Layers)}
	if err := ld.Residency.Check(plan); err != nil {
		return nil, err
	}
	return ld.pinSections(w, layouts, plan), nil
}

// checkSections returns an error unless the pack stores every layout as a section.
func (ld *Loader) checkSections(layouts []Layout) error {
	for i := range layouts {
		if layouts[i].section == nil {
			return fmt.Errorf("%w: %s: the pack stores %s in another layout; import the model again", tiering.ErrBudget, ld.Tensors.Path, layouts[i].Name)
		}
	}
	return nil
}

// pinSections limits each layout to the part that a plan pins, and returns the layouts to
// load: an ExpertCache loads the experts, and an EmbeddingLookup reads the embedding.
func (ld *Loader) pinSections(w *Weights, layouts []Layout, plan *tiering.Plan) []Layout {
	cacheExperts := expertsInPack(layouts)
	vectors := Layout{Name: "norms and biases"}
	loaded := layouts[:0]
	for _, l := range layouts {
		switch {
		case l.section == nil:
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
		loaded = append(loaded, l)
	}
	return append(loaded, vectors)
}

// moveVectors moves the layout's vectors to another layout, which stays in memory when the
// matrices are streamed.
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

// pinPrefix limits the layout to the first pinned bytes of its section, in whole blocks,
// plus the rest of the unit in which they end. It records the streamed rows of each matrix.
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

// pinnedBytes rounds the pinned bytes of a section down to whole blocks, unless they cover
// it.
func (l *Layout) pinnedBytes(pinned int64) int {
	if pinned >= int64(l.SectionSize) {
		return l.SectionSize
	}
	return int(pinned / pack.BlockBytes * pack.BlockBytes)
}

// unit returns the smallest divisible unit of the placement's matrix.
func (p *Placement) unit() (rows, bytes int) {
	m := Matrix{Type: p.Slice.Type, Rows: p.Slice.Rows, Cols: p.Slice.Cols, Tiled: p.tile}
	return m.Unit()
}
