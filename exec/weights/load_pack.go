package weights

import (
	"context"

	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/tiering"
)

// sectionPiece is the size of one read of a section: whole blocks of the pack, which need
// no copy, and enough for the bandwidth of a disk.
const sectionPiece = 16 * pack.BlockBytes

// findSection looks up the section of a pack that stores all tensors of a layout in the form
// that they have in memory. It finds none if the source is not a pack, or if the pack stores
// tiles and the loader needs rows.
func (ld *Loader) findSection(l *Layout) {
	file, ok := ld.Tensors.Source.(*pack.File)
	if !ok || !l.locate(file) {
		return
	}
	l.section, l.SectionSize = file.Section(l.index), int(file.SectionSize(l.index))
	l.Size = l.SectionSize
}

// locate finds the section of a pack that stores all tensors of a layout, and reports success.
// It sets the section's number and the places of the tensors in it.
func (l *Layout) locate(file *pack.File) bool {
	for i := range l.Places {
		p := &l.Places[i]
		at, ok := file.Find(p.name)
		if i == 0 {
			l.index = at.Section
		}
		if !ok || at.Section != l.index || at.Layout != p.layout() || at.Type != p.storedType() || at.Bytes != int64(p.Bytes()) {
			return false
		}
		p.off = int(at.Off)
	}
	return len(l.Places) > 0
}

// storedBytes returns the bytes that reading a placement transfers: whole blocks of a pack.
func (ld *Loader) storedBytes(p *Placement) int {
	file, ok := ld.Tensors.Source.(*pack.File)
	if !ok {
		return int(p.Slice.Bytes())
	}
	at, ok := file.Find(p.name)
	if !ok {
		return int(p.Slice.Bytes())
	}
	first, end := at.Off/pack.BlockBytes*pack.BlockBytes, (at.Off+at.Bytes+pack.BlockBytes-1)/pack.BlockBytes*pack.BlockBytes
	return int(min(end, file.SectionSize(at.Section)) - first)
}

// layout returns how a pack stores the placement's rows.
func (p *Placement) layout() pack.Layout {
	if p.tile {
		return pack.PlaneLayout(p.plane)
	}
	return pack.Rows
}

// storedType returns the type of the placement in memory.
func (p *Placement) storedType() quant.Type {
	if p.Vector != nil {
		return quant.F32
	}
	return p.Slice.Type
}

// submitSection submits the read of a section into its frame.
func (ld *Loader) submitSection(ctx context.Context, queue *prefetch.Queue, l *Layout, mem []byte) *prefetch.Ticket {
	return queue.Submit(ctx, prefetch.Request{From: l.section, Dst: mem, Piece: sectionPiece, Progress: ld.AddRead})
}

// attach points the weights into a frame that holds their section.
func (l *Layout) attach(mem []byte) error {
	for i := range l.Places {
		p := &l.Places[i]
		if p.Matrix != nil {
			*p.Matrix = p.matrixOver(mem[min(p.off, len(mem)):min(p.off+p.Bytes(), len(mem))])
			p.Matrix.Streamed.Run, p.Matrix.Streamed.Offset = p.rest.Run, p.rest.Offset
			continue
		}
		at := mem[p.off : p.off+p.Bytes()]
		out, err := tiering.View[float32](at, p.Slice.Rows*p.Slice.Cols)
		if err != nil {
			return err
		}
		// In place: this changes bytes on big-endian machines only.
		quant.DequantRow(quant.F32, out, at)
		*p.Vector = out
	}
	return nil
}
