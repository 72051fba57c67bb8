package modelfile

import (
	"fmt"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
)

// latentHeads is a model with latent attention whose matrices of keys and values are one tensor, the rows
// of a head's keys before those of its values. They appear as two: the values' rows, and the keys' matrices
// transposed, because queries are multiplied by them.
type latentHeads struct {
	Overlay
	parts map[string]latentPart
}

// latentPart is one of the two tensors, [heads, rows, cols].
type latentPart struct {
	base store.Tensor
	l    arch.Latent
	keys bool
}

// splitLatent returns the model with the matrices apart.
func (f *Files) splitLatent() error {
	l := f.Hyper.Latent
	if f.packed != nil || !f.Hyper.SplitsLatent() {
		return nil // Spec reports what is wrong with the sizes
	}
	ts := f.TensorSet()
	o := &latentHeads{NewOverlay(f.Source), map[string]latentPart{}}
	for layer := range f.Hyper.KVHeads { // none if the number of layers is out of range
		t, ok := ts.Find("attn_kv_b", layer, ".weight")
		if !ok {
			continue
		}
		heads := f.Hyper.Heads
		if rows, err := ts.RowsOf(t, l.Rank); err != nil || rows != heads*(l.Nope+l.Value) {
			return ts.ShapeError(t, heads*(l.Nope+l.Value), l.Rank)
		}
		keys := store.Tensor{Name: ts.name("attn_k_b", layer) + ".weight", Type: t.Type, Shape: []int{heads, l.Rank, l.Nope}}
		if t.Type.BlockElems() > 1 {
			keys.Type = quant.F32 // blocks of a row cannot be transposed
		}
		keys.Size = int64(heads*l.Rank*l.Nope) * int64(keys.Type.BlockBytes())
		values := store.Tensor{Name: ts.name("attn_v_b", layer) + ".weight", Type: t.Type, Shape: []int{heads, l.Value, l.Rank}}
		values.Size = t.Size / int64(l.Nope+l.Value) * int64(l.Value)
		for i, part := range []store.Tensor{keys, values} {
			o.add(part)
			o.parts[part.Name] = latentPart{t, l, i == 0}
		}
	}
	if len(o.parts) > 0 {
		f.Source, f.latent = o, o
	}
	return nil
}

// ReadAt reads bytes of a tensor as it appears.
func (o *latentHeads) ReadAt(t store.Tensor, p []byte, off int64) (int, error) {
	part, ok := o.parts[t.Name]
	if !ok {
		return o.Source.ReadAt(t, p, off)
	}
	if err := checkRange(t, p, off); err != nil {
		return 0, err
	}
	perHead := t.Size / int64(t.Shape[0])
	n := 0
	for n < len(p) {
		head, at := (off+int64(n))/perHead, (off+int64(n))%perHead
		out := p[n:min(len(p), n+int(perHead-at))]
		if err := part.read(o.Source, t, int(head), at, out); err != nil {
			return n, fmt.Errorf("tensor %s: %w", part.base.Name, err)
		}
		n += len(out)
	}
	return n, nil
}

// read reads bytes of one head's matrix.
func (p *latentPart) read(src store.Source, t store.Tensor, head int, at int64, out []byte) error {
	row := int64(p.l.Rank/p.base.Type.BlockElems()) * int64(p.base.Type.BlockBytes())
	first := int64(head*(p.l.Nope+p.l.Value)) * row
	if !p.keys {
		_, err := src.ReadAt(p.base, out, first+int64(p.l.Nope)*row+at)
		return err
	}
	raw := make([]byte, int64(p.l.Nope)*row)
	if _, err := src.ReadAt(p.base, raw, first); err != nil {
		return err
	}
	if p.base.Type.BlockElems() > 1 {
		floats := make([]float32, p.l.Nope*p.l.Rank)
		quant.DequantRow(p.base.Type, floats, raw)
		raw = AppendFloats(nil, floats)
	}
	size := t.Type.BlockBytes() // of an element
	for i := range out {
		element, b := (int(at)+i)/size, (int(at)+i)%size
		r, c := element/p.l.Nope, element%p.l.Nope
		out[i] = raw[(c*p.l.Rank+r)*size+b]
	}
	return nil
}

// keepLatent keeps the factors l of a tensor that appears as two, B as its file stores it. It returns their bytes. The values' rows
// have a part of the rows of B. Keys are transposed: the factors of a head are the transposed rows of B, which differ from head to
// head, and A.
func (b *besideWeights) keepLatent(o *latentHeads, name string, l *LowRank) (bytes int64) {
	size, rank := l.Type.BlockBytes(), l.Rank
	for part, p := range o.parts {
		if p.base.Name != name {
			continue
		}
		at := o.Index[part]
		heads, n := o.Visible[at].Shape[0], p.l.Nope+p.l.Value
		rows := func(first, n int) []byte { return l.B[first*rank*size : (first+n)*rank*size] }
		if !p.keys {
			v := *l
			v.B = nil
			for h := range heads {
				v.B = append(v.B, rows(h*n+p.l.Nope, p.l.Value)...)
			}
			v.B = inBlocks(v.B, heads*p.l.Value, rank, size)
			b.factors[part] = append(b.factors[part], v)
			bytes += int64(len(v.A) + len(v.B))
			continue
		}
		outer := inBlocks(transposed(l.A, rank, p.l.Rank, size), p.l.Rank, rank, size)
		bytes += int64(len(outer))
		for h := range heads {
			k := *l
			k.A, k.B = transposed(rows(h*n, p.l.Nope), p.l.Nope, rank, size), outer
			k.from, k.to = h*p.l.Rank, (h+1)*p.l.Rank
			b.factors[part] = append(b.factors[part], k)
			bytes += int64(len(k.A))
		}
	}
	return bytes
}

// transposed returns the transposed matrix of elements of size bytes.
func transposed(data []byte, rows, cols, size int) []byte {
	out := make([]byte, len(data))
	for r := range rows {
		for c := range cols {
			copy(out[(c*rows+r)*size:][:size], data[(r*cols+c)*size:])
		}
	}
	return out
}

// latentTensors returns the names of the tensors that appear as two.
func (f *Files) latentTensors() map[string]bool {
	names := map[string]bool{}
	if f.latent != nil {
		for _, part := range f.latent.parts {
			names[part.base.Name] = true
		}
	}
	return names
}
