package weights

import (
	"strings"

	"github.com/llmrun/llmrun/exec/arch"
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
	case TableLayout:
		s.Table, s.TableRow = bytes, l.Places[0].Slice.Bytes()/int64(l.Places[0].Slice.Rows)
		return
	case expertLayout:
		if strings.HasSuffix(l.Name, ".0") { // the layer's other experts have the same size
			s.ExpertLayers++
			s.OpsPerToken += int64(s.ExpertsUsed) * l.ops()
			s.Matmuls += len(l.matrices())
		}
		s.ExpertBytes = max(s.ExpertBytes, int64(vfs.DirectSize(l.Size)))
		return
	case EndsLayout:
		s.Head = l.shape()
		s.Matmuls++
	default:
		s.Layers = append(s.Layers, l.shape())
		s.OpsPerToken += l.ops()
		s.Matmuls += len(l.matrices())
	}
	l.addUnits(s)
}

// shape returns the section of a plan.
func (l *Layout) shape() tiering.Section {
	return tiering.Section{Name: l.Name, Bytes: int64(l.Size), Fixed: int64(l.fixed()), Granule: PinGranule, Block: pack.BlockBytes}
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
			*p.Matrix = p.outline()
		}
	}
}

// ops returns the multiplications and additions of the layout's matmuls for one token.
func (l *Layout) ops() (n int64) {
	for i := range l.Places {
		if m := l.Places[i].Matrix; m != nil && !m.Plane.IsLow() {
			n += 2 * int64(m.Rows) * int64(m.Cols)
		}
	}
	return n
}

// Matmuls returns the matrices of a layer or an expert, and how many times a token is multiplied with each of them, on
// average; none for other layouts.
func (l *Layout) Matmuls(spec *arch.Spec) (matrices []*Matrix, times float64) {
	switch l.Kind {
	case LayerLayout:
		times = 1
	case expertLayout:
		times = float64(spec.ExpertsUsed) / float64(spec.Experts)
	default:
		return nil, 0
	}
	return l.matrices(), times
}

// matrices returns the matrices of the layout, each of which tokens are multiplied with.
func (l *Layout) matrices() (list []*Matrix) {
	for i := range l.Places {
		if m := l.Places[i].Matrix; m != nil && !m.Plane.IsLow() {
			list = append(list, m)
		}
	}
	return list
}

// PinGranule divides the size of a section's streamed part: whole blocks of a pack, and the
// size of one read.
const PinGranule = 16 * pack.BlockBytes
