package exec

import (
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/quant"
)

// prepareRow normalizes, clips and rotates one row's queries and keys, and appends its keys and
// values to the KV cache. It scales the queries and copies them to the order in which attention
// reads them.
func (p *pass) prepareRow(row, _ int) {
	s, d, kvHeads := p.m.Spec, p.m.Spec.HeadDim, p.layer.KVHeads
	q := p.q[row*s.Heads*d : (row+1)*s.Heads*d]
	k := p.k[row*kvHeads*d : (row+1)*kvHeads*d]
	v := p.v[row*kvHeads*d : (row+1)*kvHeads*d]
	p.qkNorm(q, &p.w.QNorm)
	p.qkNorm(k, &p.w.KNorm)
	if s.ClipQKV > 0 {
		clip(q, s.ClipQKV)
		clip(k, s.ClipQKV)
		clip(v, s.ClipQKV)
	}
	if r := p.layer.Rope; r >= 0 {
		half := s.Ropes[r].Dim / 2
		cos, sin := p.cos[r][row*half:(row+1)*half], p.sin[r][row*half:(row+1)*half]
		for h := range s.Heads {
			arch.Rotate(q[h*d:(h+1)*d], cos, sin, s.Interleave)
		}
		for h := range kvHeads {
			arch.Rotate(k[h*d:(h+1)*d], cos, sin, s.Interleave)
		}
	}
	// attention reads the queries of a key head side by side
	quant.Scale(q, s.AttnScale)
	group := s.Heads / kvHeads
	for h := range kvHeads {
		copy(p.queries(h, row, 1), q[h*group*d:(h+1)*group*d])
	}
	for _, r := range p.batch.runs {
		if row >= r.row && row < r.row+r.count {
			r.seq.kv.Put(p.index, r.pos+row-r.row, k, v)
		}
	}
}

// qkNorm normalizes queries or keys: the whole vector or each head, as the family does.
func (p *pass) qkNorm(x []float32, g *weights.Gain) {
	switch p.m.Spec.QKNorm {
	case arch.QKNormAllHeads:
		applyNorm(&p.m.Spec.Norm, x, x, g)
	case arch.QKNormHead:
		d := p.m.Spec.HeadDim
		for i := 0; i < len(x); i += d {
			applyNorm(&p.m.Spec.Norm, x[i:i+d], x[i:i+d], g)
		}
	}
}

// clip limits values to [-limit, limit].
func clip(x []float32, limit float32) {
	for i, v := range x {
		x[i] = min(max(v, -limit), limit)
	}
}
