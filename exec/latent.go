package exec

import (
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

// latentAttention computes what latent attention (see arch.Latent) does before and behind attention itself,
// which works with the stored vectors: they are the keys, and their first elements the values, of the one
// key head that all query heads share.
type latentAttention struct {
	*passState
	mm      *matmulQueue
	ranked  []float32 // [chunk, QRank] queries before their second matrix
	perHead []float32 // [heads, n, Nope] or [heads, n, Value] of each head
	wide    []float32 // [heads, n, Rank] of each head

	normPart, splitPart, gatherPart, joinPart func(row, worker int)
}

// makeParts creates the method values once, because creating one allocates.
func (a *latentAttention) makeParts() {
	a.normPart, a.splitPart, a.gatherPart, a.joinPart = a.normQueries, a.splitQueries, a.gatherValues, a.joinValues
}

// on reports whether the model has latent attention.
func (a *latentAttention) on() bool { return a.m.Spec.Latent.Rank > 0 }

// carve takes the buffers of a layer.
func (a *latentAttention) carve(arena *tiering.Arena) {
	l := a.m.Spec.Latent
	a.ranked = arena.Floats(a.chunk * l.QRank)
	a.perHead = arena.Floats(a.chunk * a.m.Spec.Heads * max(l.Nope, l.Value))
	a.wide = arena.Floats(a.chunk * a.m.Spec.Heads * l.Rank)
}

// project computes the vectors that tokens store and, if a row continues past them, the queries.
func (a *latentAttention) project(in []float32 /* [n, Dim] */, queries bool) {
	w := &a.w.Latent
	if queries {
		a.mm.queue(&w.QA, in, a.n, a.ranked)
	}
	a.mm.queue(&w.KV, in, a.n, a.k)
	if queries && !w.QA.Present() {
		a.mm.queue(&a.w.Q, in, a.n, a.q)
	}
	a.mm.run()
	if !queries {
		return
	}
	if w.QA.Present() {
		a.forRows(a.n, a.normPart)
		a.mm.queue(&w.QB, a.ranked, a.n, a.q)
		a.mm.run()
	}
	a.forRows(a.n, a.splitPart)
	l := a.m.Spec.Latent
	for h := range w.Keys {
		a.mm.queue(&w.Keys[h], a.perHead[h*a.n*l.Nope:], a.n, a.wide[h*a.n*l.Rank:])
	}
	a.mm.run()
}

// expand turns attention's output, sums of stored vectors, into sums of each head's values.
func (a *latentAttention) expand() {
	if !a.on() {
		return
	}
	l, w := a.m.Spec.Latent, &a.w.Latent
	a.forRows(a.n, a.gatherPart)
	for h := range w.Values {
		a.mm.queue(&w.Values[h], a.wide[h*a.n*l.Rank:], a.n, a.perHead[h*a.n*l.Value:])
	}
	a.mm.run()
	a.forRows(a.n, a.joinPart)
}

func (a *latentAttention) normQueries(row, _ int) {
	n := a.m.Spec.Latent.QRank
	q := a.ranked[row*n : (row+1)*n]
	applyNorm(&a.m.Spec.Norm, q, q, &a.w.Latent.QNorm)
}

// query returns the query of a row and head as the matmul writes it.
func (a *latentAttention) query(row, head int) []float32 {
	l := a.m.Spec.Latent
	n := l.Nope + l.Rope
	return a.q[(row*a.m.Spec.Heads+head)*n:][:n]
}

// splitQueries copies the elements of a row's queries that are not rotated.
func (a *latentAttention) splitQueries(row, _ int) {
	n := a.m.Spec.Latent.Nope
	for h := range a.m.Spec.Heads {
		copy(a.perHead[(h*a.n+row)*n:][:n], a.query(row, h))
	}
}

func (a *latentAttention) gatherValues(row, _ int) {
	heads, n := a.m.Spec.Heads, a.m.Spec.Latent.Rank
	for h := range heads {
		copy(a.wide[(h*a.n+row)*n:][:n], a.att[(row*heads+h)*n:])
	}
}

func (a *latentAttention) joinValues(row, _ int) {
	heads, n := a.m.Spec.Heads, a.m.Spec.Latent.Value
	for h := range heads {
		copy(a.att[(row*heads+h)*n:][:n], a.perHead[(h*a.n+row)*n:])
	}
}

// prepareRow is that of pass for latent attention.
func (a *latentAttention) prepareRow(row, _ int) {
	s, l := a.m.Spec, a.m.Spec.Latent
	cos, sin := anglesOf(a.passState, 0, row)
	r := a.batch.runOf(row)
	d := l.Rank + l.Rope
	k := a.k[row*d : (row+1)*d]
	applyNorm(&s.Norm, k[:l.Rank], k[:l.Rank], &a.w.Latent.KVNorm)
	arch.Rotate(k[l.Rank:], cos, sin, s.Interleave)
	r.seq.kv.Put(a.index, r.pos+row-r.row, k, nil)
	queries := a.queries(0, row, 1)
	for h := range s.Heads {
		q := queries[h*d : (h+1)*d]
		copy(q, a.wide[(h*a.n+row)*l.Rank:][:l.Rank])
		copy(q[l.Rank:], a.query(row, h)[l.Nope:])
		arch.Rotate(q[l.Rank:], cos, sin, s.Interleave)
	}
	quant.Scale(queries, s.AttnScale)
}

// codeBlock views a block in codes. Of a latent one, it makes the values with a workspace, if there is one.
func codeBlock(s *passState, w *workspace, block []byte) (b kv.Block8) {
	shape := s.m.cache.Shape()
	d, width := s.layer.HeadDim, s.layer.ValueDim
	if shape.Latent == 0 {
		return shape.Format.Block8(block, d)
	}
	b = kv.LatentCodes(block, d)
	if b.Scales = b.KeyScales; w != nil {
		b.Values = w.latent[:kv.BlockTokens*width]
		kv.LatentValues(b.Values, b.Keys, d, width)
	}
	return b
}

// floatBlock views a block in F32. The values of a latent one begin where its keys do.
func floatBlock(shape *kv.Shape, block []byte, d int) (keys, values []float32) {
	if shape.Latent > 0 {
		keys = kv.LatentFloats(block, d)
		return keys, keys
	}
	return shape.Format.Block32(block, d)
}

// halfBlock is floatBlock for F16.
func halfBlock(latent bool, block []byte, d int) (keys, values []byte) {
	if latent {
		return block, block
	}
	return kv.F16.Block16(block, d)
}
