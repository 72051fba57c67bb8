package calib

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
)

// PlanesAttachment is the name under which a pack stores its Planes.
const PlanesAttachment = "planes.json"

// Planes is what the low bits of matrices are worth, measured on a text.
type Planes struct {
	Tokens   int           `json:"tokens"` // of the text
	Matrices []PlaneMatrix `json:"matrices"`
}

// PlaneMatrix is a matrix that can be stored in two planes.
type PlaneMatrix struct {
	Name  string      `json:"name"`
	Bytes int64       `json:"bytes"`
	High  []HighPlane `json:"high"` // the smallest first
	// Chosen is the high plane in which the matrix is stored, 0 for a whole matrix.
	Chosen tiled.Plane `json:"chosen"`
}

// HighPlane is a high plane of a matrix.
type HighPlane struct {
	Plane tiled.Plane `json:"plane"`
	Bytes int64       `json:"bytes"`
	// Loss is the divergence of the next token's distribution, in nats, if the matrix has this plane alone and all others are whole.
	Loss float64 `json:"loss"`
}

// NewPlanes returns the planes of matrices, which are not measured yet.
func NewPlanes(named map[string]*weights.Linear) *Planes {
	p := &Planes{}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		w := named[name]
		m := PlaneMatrix{Name: name, Bytes: int64(w.Rows) * int64(w.RowBytes())}
		for _, plane := range [...]tiled.Plane{tiled.High2, tiled.High3, tiled.High4} {
			if w.Tiled && plane.Of(w.Type) {
				m.High = append(m.High, HighPlane{Plane: plane, Bytes: m.Bytes / int64(w.Type.BlockBytes()) * int64(plane.BlockBytes(w.Type))})
			}
		}
		if len(m.High) > 0 {
			p.Matrices = append(p.Matrices, m)
		}
	}
	return p
}

// Count returns the number of high planes.
func (p *Planes) Count() (n int) {
	for i := range p.Matrices {
		n += len(p.Matrices[i].High)
	}
	return n
}

// Each sets the loss of each high plane to what measure returns.
func (p *Planes) Each(measure func(name string, plane tiled.Plane) (float64, error)) (err error) {
	for i := range p.Matrices {
		m := &p.Matrices[i]
		for j := range m.High {
			if m.High[j].Loss, err = measure(m.Name, m.High[j].Plane); err != nil {
				return err
			}
		}
	}
	return nil
}

// upgrade replaces the plane of a matrix by the next larger one.
type upgrade struct {
	matrix, to int
	bytes      int64
	gain       float64 // of loss for a byte
}

// Choose chooses the planes of all matrices so that the high ones take at most a share of their bytes, and the sum of the losses is
// small: from the smallest planes on it takes the larger plane that saves the most loss for a byte. It returns the share that they
// take, which is larger if the smallest planes do.
func (p *Planes) Choose(share float64) (taken float64) {
	var all, high int64
	at := make([]int, len(p.Matrices))
	for i := range p.Matrices {
		all += p.Matrices[i].Bytes
		high += p.Matrices[i].High[0].Bytes
	}
	for limit := int64(share * float64(all)); ; {
		var best upgrade
		for i := range p.Matrices {
			if u := p.Matrices[i].upgrade(at[i]); u.gain > best.gain && high+u.bytes <= limit {
				best = u
				best.matrix = i
			}
		}
		if best.bytes == 0 {
			break
		}
		at[best.matrix], high = best.to, high+best.bytes
	}
	for i, to := range at {
		p.Matrices[i].Chosen = tiled.Whole
		if to < len(p.Matrices[i].High) {
			p.Matrices[i].Chosen = p.Matrices[i].High[to].Plane
		}
	}
	return float64(high) / float64(all)
}

// upgrade returns the change from a plane to the larger one that saves the most loss for a byte. The whole matrix comes last.
func (m *PlaneMatrix) upgrade(from int) (best upgrade) {
	for to := from + 1; to <= len(m.High); to++ {
		bytes, loss := m.Bytes, 0.0
		if to < len(m.High) {
			bytes, loss = m.High[to].Bytes, m.High[to].Loss
		}
		u := upgrade{to: to, bytes: bytes - m.High[from].Bytes}
		u.gain = (m.High[from].Loss - loss) / float64(u.bytes)
		if u.gain > best.gain {
			best = u
		}
	}
	return best
}

// Of returns the chosen plane of a matrix.
func (p *Planes) Of(name string, _ quant.Type) tiled.Plane {
	if i, ok := slices.BinarySearchFunc(p.Matrices, name, func(m PlaneMatrix, name string) int { return cmp.Compare(m.Name, name) }); ok {
		return p.Matrices[i].Chosen
	}
	return tiled.Whole
}

// Encode returns the form of an attachment.
func (p *Planes) Encode() ([]byte, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("calib: planes: %w", err)
	}
	return data, nil
}

// LogProbs returns the logarithms of the probabilities of logits.
func LogProbs(logits []float32 /* [vocab] */) []float32 {
	top, sum := math.Inf(-1), 0.0
	for _, l := range logits {
		top = max(top, float64(l))
	}
	for _, l := range logits {
		sum += math.Exp(float64(l) - top)
	}
	out, rest := make([]float32, len(logits)), top+math.Log(sum)
	for i, l := range logits {
		out[i] = float32(float64(l) - rest)
	}
	return out
}

// Divergence returns the mean divergence of distributions from those of the whole model, in nats. Both are logarithms.
func Divergence(whole, got [][]float32 /* [tokens, vocab] */) (sum float64) {
	for i := range got {
		for j, l := range whole[i] {
			if p := math.Exp(float64(l)); p > 0 {
				sum += p * float64(l-got[i][j])
			}
		}
	}
	return sum / float64(max(1, len(got)))
}
