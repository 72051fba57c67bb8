package weights

import (
	"strings"

	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// AddTo adds the layout to the shape of its model.
func (l *Layout) AddTo(s *tiering.Shape) {
	bytes := int64(l.Size)
	switch l.Kind {
	case EmbeddingLayout:
		s.Embedding = bytes
		return
	case expertLayout:
		if strings.HasSuffix(l.Name, ".0") { // the layer's other experts have the same size
			s.ExpertLayers++
			s.OpsPerToken += int64(s.ExpertsUsed) * l.ops()
		}
		s.ExpertBytes = max(s.ExpertBytes, int64(vfs.DirectSize(l.Size)))
		return
	case EndsLayout:
		s.Head = tiering.Section{Name: l.Name, Bytes: bytes, Granule: PinGranule, Block: pack.BlockBytes}
	default:
		s.Layers = append(s.Layers, tiering.Section{Name: l.Name, Bytes: bytes, Granule: PinGranule, Block: pack.BlockBytes})
		s.OpsPerToken += l.ops()
	}
	l.addUnits(s)
}

// addUnits adds the units that the planner must not cut: vectors, and the tiles or rows of
// matrices.
func (l *Layout) addUnits(s *tiering.Shape) {
	for i := range l.Places {
		p := &l.Places[i]
		switch {
		case p.Vector != nil:
			s.Vectors += int64(AlignedSize(p.Bytes()))
		case p.tile:
			s.Unit = max(s.Unit, tiled.TileRows*int64(p.Matrix.RowBytes()))
		default:
			s.Unit = max(s.Unit, int64(p.Matrix.RowBytes()))
		}
	}
}

// Describe sets the shapes of the layout's matrices without their data.
func (l *Layout) Describe() {
	l.assignOffsets()
	for i := range l.Places {
		p := &l.Places[i]
		if p.Matrix != nil {
			*p.Matrix = Matrix{Type: p.Slice.Type, Rows: p.Slice.Rows, Cols: p.Slice.Cols, Tiled: p.tile}
		}
	}
}

// ops returns the multiplications and additions of the layout's matmuls for one token.
func (l *Layout) ops() (n int64) {
	for i := range l.Places {
		if m := l.Places[i].Matrix; m != nil {
			n += 2 * int64(m.Rows) * int64(m.Cols)
		}
	}
	return n
}

// PinGranule divides the size of a section's streamed part: whole blocks of a pack, and the
// size of one read.
const PinGranule = 16 * pack.BlockBytes
