package weights

import (
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/tiering"
)

// applyPlan changes the layouts so that they follow a plan: the first part of each section
// stays in memory and the rest is streamed. Norms and biases move to a layout of their own,
// which always stays in memory. An embedding that is not the output matrix is not loaded.
func (ld *Loader) applyPlan(w *Weights, layouts []Layout, plan *tiering.Plan) ([]Layout, error) {
	file, _ := ld.Tensors.Source.(*pack.File)
	ld.Residency = &Residency{w: w, File: file, budget: ld.Budget, layers: len(w.Layers)}
	if err := ld.Residency.Check(plan); err != nil {
		return nil, err
	}
	if err := ld.Residency.BypassCache(plan); err != nil {
		return nil, err
	}
	return ld.pinSections(w, layouts, plan), nil
}

// pinSections limits each layout to the part that a plan pins, and returns the layouts to
// load: an ExpertCache loads the experts, and an EmbeddingLookup reads the embedding.
func (ld *Loader) pinSections(w *Weights, layouts []Layout, plan *tiering.Plan) []Layout {
	vectors := Layout{Name: "norms and biases"}
	loaded := layouts[:0]
	for _, l := range layouts {
		switch {
		case l.Kind == expertLayout:
			ld.CachedExperts = append(ld.CachedExperts, l)
			continue
		case l.Kind == EmbeddingLayout:
			w.Embed.leaveOnFlash(&l)
			continue
		case l.Kind == TableLayout:
			w.Table.leaveOnFlash(&l)
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
