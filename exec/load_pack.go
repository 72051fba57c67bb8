package exec

import (
	"context"

	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/tiering"
)

// sectionPiece is how much of a section one read asks for: whole blocks of the
// pack, which need no copy, and enough for a disk to reach its bandwidth.
const sectionPiece = 16 * pack.BlockBytes

// findSection looks for the section of a pack that holds all tensors of a plan
// as they will lie in memory. There is none where rows are wanted and the pack
// has tiles, or where the source is no pack.
func (ld *loader) findSection(plan *layout) {
	file, ok := ld.ts.src.(*pack.File)
	if !ok || len(plan.places) == 0 {
		return
	}
	section := -1
	for i := range plan.places {
		p := &plan.places[i]
		at, ok := file.Find(p.name)
		if i == 0 {
			section = at.Section
		}
		if !ok || at.Section != section || at.Layout != p.layout() || at.Type != p.storedType() || at.Bytes != int64(p.bytes()) {
			return
		}
		p.off = int(at.Off)
	}
	plan.section, plan.size = file.Section(section), int(file.SectionSize(section))
	plan.sectionSize, plan.index = plan.size, section
}

// layout returns how a pack keeps the placement's rows.
func (p *placement) layout() pack.Layout {
	if p.tile {
		return pack.Tiles
	}
	return pack.Rows
}

// storedType returns the type that the placement has in memory.
func (p *placement) storedType() quant.Type {
	if p.vector != nil {
		return quant.F32
	}
	return p.slot.typ
}

// askForSection begins to read a section into its frame.
func (ld *loader) askForSection(ctx context.Context, queue *prefetch.Queue, plan *layout, mem []byte) *prefetch.Ticket {
	return queue.Submit(ctx, prefetch.Request{From: plan.section, Dst: mem, Piece: sectionPiece, Progress: ld.arrived})
}

// attach points the weights into a frame that holds their section.
func (l *layout) attach(mem []byte) error {
	for i := range l.places {
		p := &l.places[i]
		if p.matrix != nil {
			*p.matrix = p.matrixOver(mem[min(p.off, len(mem)):min(p.off+p.bytes(), len(mem))])
			p.matrix.rest.run, p.matrix.rest.off = p.rest.run, p.rest.off
			continue
		}
		at := mem[p.off : p.off+p.bytes()]
		out, err := tiering.View[float32](at, p.slot.rows*p.slot.cols)
		if err != nil {
			return err
		}
		// In place: changes nothing unless the machine is big-endian.
		quant.DequantRow(quant.F32, out, at)
		*p.vector = out
	}
	return nil
}
