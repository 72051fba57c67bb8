package exec

import (
	"math"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/quant"
)

// prepareRow normalizes, clips and rotates one row's queries and keys, and appends its keys and
// values to the KV cache. It scales the queries and copies them to the order in which attention
// reads them.
func (p *pass) prepareRow(row, _ int) {
	s, d, kvHeads := p.m.Spec, p.layer.HeadDim, p.layer.KVHeads
	q := p.q[row*s.Heads*d : (row+1)*s.Heads*d]
	p.qkNorm(q, &p.w.QNorm)
	clip(q, s.ClipQKV)
	p.rotateHeads(q, row, &p.w.QNorm)
	r := p.batch.runOf(row)
	p.scaleQueries(q, row, r.pos+row-r.row)
	if p.layer.KVBack == 0 {
		p.prepareKV(r, row, p.k[row*kvHeads*d:(row+1)*kvHeads*d], p.v[row*kvHeads*d:(row+1)*kvHeads*d])
	}
}

// scaleQueries scales the queries of a token at a position, and copies them to the order in which
// attention reads them: those of a key head side by side.
func (p *pass) scaleQueries(q []float32, row, pos int) {
	s, d, kvHeads := p.m.Spec, p.layer.HeadDim, p.layer.KVHeads
	quant.Scale(q, s.AttnScale*s.QueryGrowth.At(pos))
	group := s.Heads / kvHeads
	for h := range kvHeads {
		copy(p.queries(h, row, 1), q[h*group*d:(h+1)*group*d])
	}
}

// prepareKV is prepareRow for the row's keys and values.
func (p *pass) prepareKV(r *run, row int, k, v []float32) {
	if p.layer.KeyIsValue {
		copy(v, k)
	}
	p.qkNorm(k, &p.w.KNorm)
	if p.m.Spec.VNorm {
		for at, d := 0, p.layer.HeadDim; at < len(v); at += d {
			rootNormalize(v[at:at+d], p.m.Spec.Norm.Eps)
		}
	}
	clip(k, p.m.Spec.ClipQKV)
	clip(v, p.m.Spec.ClipQKV)
	p.rotateHeads(k, row, &p.w.KNorm)
	r.seq.kv.Put(p.stored, r.pos+row-r.row, k, v)
}

// rotateHeads rotates the heads of a row's queries or keys. It normalizes them with g if the family
// does so behind the rotation.
func (p *pass) rotateHeads(x []float32, row int, g *weights.Gain) {
	if r := p.layer.Rope; r >= 0 {
		cos, sin := anglesOf(p.passState, r, row)
		for at, d := 0, p.layer.HeadDim; at < len(x); at += d {
			arch.Rotate(x[at:at+d], cos, sin, p.m.Spec.Interleave)
		}
	}
	if p.m.Spec.QKNorm == arch.QKNormRotated {
		p.headNorm(x, g)
	}
}

// anglesOf returns the cosines and sines of a row in a rotary table.
func anglesOf(s *passState, table, row int) (cos, sin []float32) {
	half := s.m.Spec.Ropes[table].Dim / 2
	return s.cos[table][row*half : (row+1)*half], s.sin[table][row*half : (row+1)*half]
}

// rootNormalize is RMSNorm without a gain.
func rootNormalize(x []float32, eps float32) {
	quant.Scale(x, float32(1/math.Sqrt(float64(quant.SumSquares(x)/float32(len(x))+eps))))
}

// qkNorm normalizes queries or keys: the whole vector or each head, as the family does.
func (p *pass) qkNorm(x []float32, g *weights.Gain) {
	switch p.m.Spec.QKNorm {
	case arch.QKNormAllHeads:
		applyNorm(&p.m.Spec.Norm, x, x, g)
	case arch.QKNormHead:
		p.headNorm(x, g)
	}
}

// headNorm normalizes each head of queries or keys.
func (p *pass) headNorm(x []float32, g *weights.Gain) {
	d := p.layer.HeadDim
	for i := 0; i < len(x); i += d {
		applyNorm(&p.m.Spec.Norm, x[i:i+d], x[i:i+d], g)
	}
}

// clip limits values to [-limit, limit]; 0 is no limit.
func clip(x []float32, limit float32) {
	if limit <= 0 {
		return
	}
	for i, v := range x {
		x[i] = min(max(v, -limit), limit)
	}
}
