package weights

import (
	"errors"
	"strings"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store/pack"
)

// ErrNoPlanes reports that no matrix of a model is of a type that is stored in planes.
var ErrNoPlanes = errors.New("no matrix has codes of 4 to 8 bits, such as Q8_0, Q4_0 or Q4_K, which are stored in two planes")

// PlaneOf chooses the high plane of a matrix by its name and type, if the matrix is stored in two planes;
// tiled.Whole leaves it as it is.
type PlaneOf func(name string, t quant.Type) tiled.Plane

// Planes returns the choice of 4 of 8 and 6 bits, and all but one of 5 and 4 bits. mixed chooses 2 of 4 bits of queries,
// keys, gate and up, and leaves the other matrices of 4 bits whole.
func Planes(mixed bool) PlaneOf {
	return func(name string, t quant.Type) tiled.Plane {
		switch {
		case tiled.High4.Of(t):
			return tiled.High4
		case !tiled.High3.Of(t):
			return tiled.Whole
		case t == quant.Q6_K:
			return tiled.High2
		case !mixed:
			return tiled.High3
		}
		for _, role := range [...]string{"attn_q", "attn_k", "ffn_gate", "ffn_up"} {
			if strings.HasSuffix(name, "."+role+".weight") {
				return tiled.High2
			}
		}
		return tiled.Whole
	}
}

// HeadName returns the name of the output matrix of a model.
func HeadName(w *Weights) string {
	if w.Tied {
		return "token_embd.weight"
	}
	return "output.weight"
}

// splitPlanes stores matrices of layers and heads in two planes. planeOf chooses the high one; tiled.Whole
// leaves a matrix whole. The low planes follow everything else of their layout, so that a plan that pins
// the first part of each section keeps the high planes. It returns how many matrices are in planes.
func splitPlanes(layouts []Layout, planeOf func(*Placement) tiled.Plane) (matrices int) {
	for i := range layouts {
		l := &layouts[i]
		if l.Kind != LayerLayout && l.Kind != EndsLayout {
			continue
		}
		l.drafts = true
		for j := range l.Places { // without those that the loop appends
			p := &l.Places[j]
			if p.Matrix == nil || !p.tile {
				continue
			}
			high := planeOf(p)
			if !high.IsHigh() || !high.Of(p.Slice.Type) {
				continue
			}
			p.plane = high
			low := *p
			low.name, low.plane, low.Matrix = p.name+pack.LowSuffix, high.Other(), &Matrix{}
			p.Matrix.Low = low.Matrix
			l.Places = append(l.Places, low)
			matrices++
		}
	}
	return matrices
}

// InPlanes returns layouts of the planes that a pack stores.
func (ld *Loader) InPlanes(layouts []Layout) []Layout {
	file, ok := ld.Tensors.Source.(*pack.File)
	if !ok || !file.HasPlanes() {
		return layouts
	}
	splitPlanes(layouts, func(p *Placement) tiled.Plane {
		at, _ := file.Find(p.name)
		return at.Layout.Plane()
	})
	return layouts
}

// fixed returns the bytes at the start of the section that passes of the high planes use, 0 if there are none
// of these.
func (l *Layout) fixed() int {
	if !l.drafts {
		return 0
	}
	for i := range l.Places {
		if p := &l.Places[i]; p.plane.IsLow() {
			return min((p.off+pack.BlockBytes-1)/pack.BlockBytes*pack.BlockBytes, l.Size)
		}
	}
	return l.Size
}

// joinBlocks is memory for blocks of a pack beside a tile whose planes are joined.
const joinBlocks = 2 * pack.BlockBytes

// findPlanes finds the planes of a whole matrix in a pack that stores it in two.
func (ld *Loader) findPlanes(p *Placement) (high, low storedRows, ok bool) {
	file, ok := ld.Tensors.Source.(*pack.File)
	if !ok || p.plane != tiled.Whole {
		return high, low, false
	}
	at, ok := file.Find(p.name)
	if !ok || at.Layout.Plane() == tiled.Whole {
		return high, low, false
	}
	rest, ok := file.Find(p.name + pack.LowSuffix)
	stored := func(at *pack.Location) storedRows {
		return storedRows{file.Section(at.Section), at.Off, file.SectionSize(at.Section), at.Layout.Plane()}
	}
	return stored(&at), stored(&rest), ok
}

// joinStored fills out with whole tiles of a matrix that a pack stores in two planes, from one on.
func joinStored(p *Placement, high, low *storedRows, tile int, memory, out []byte) error {
	_, unit := p.unit()
	size := p.Slice.Type.BlockBytes()
	part, rest := unit/size*high.plane.BlockBytes(p.Slice.Type), unit/size*low.plane.BlockBytes(p.Slice.Type)
	for len(out) > 0 {
		n := min(len(out), len(memory)-joinBlocks) / unit
		highs, lows, blocks := memory[:n*part], memory[n*part:n*unit], memory[n*unit:]
		if err := high.readWith(blocks, highs, tile*part); err != nil {
			return err
		}
		if err := low.readWith(blocks, lows, tile*rest); err != nil {
			return err
		}
		tiled.JoinPlanes(out[:n*unit], high.plane, p.Slice.Type, highs, lows)
		out, tile = out[n*unit:], tile+n
	}
	return nil
}
