package modelfile

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/store"
)

// An adapter names the matrices of the files that it was trained for. The files of the model may name them in another way, order
// the rows of queries and keys differently, or have one tensor for several matrices of the adapter, or several for one:
// safetensors and GGUF files, and packs of both. counterparts finds the tensors and the order of the rows.

// adapterFormat is how an adapter names and orders what it changes.
type adapterFormat struct {
	factors factorNames
	gguf    bool
	// adjacent: the rows of rotary pairs of queries and keys are side by side, which a safetensors file of the model does not have.
	adjacent bool
}

// counterpart is a tensor that a module of an adapter changes.
type counterpart struct {
	t *store.Tensor
	// rows is the module's row for each row of the tensor, -1 for those that it leaves as they are; nil: the same rows.
	rows []int
}

// pick returns the rows of the second factor that belong to the tensor.
func (c *counterpart) pick(b factor) factor {
	if c.rows == nil {
		return b
	}
	size := b.cols * b.t.BlockBytes() / b.t.BlockElems()
	out := factor{t: b.t, rows: len(c.rows), cols: b.cols, data: make([]byte, len(c.rows)*size)}
	for i, row := range c.rows {
		if row >= 0 {
			copy(out.data[i*size:][:size], b.data[row*size:])
		}
	}
	return out
}

// matrixRoles are the roles of matrices that safetensors and GGUF files both store with these rows, but for the order of pairs.
var matrixRoles = []string{
	"attn_q", "attn_k", "attn_v", "attn_qkv", "attn_output", "ffn_gate", "ffn_up", "ffn_down", "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp",
}

var (
	ggufModule  = regexp.MustCompile(`^blk\.(\d+)\.(.+)$`)
	layerNumber = regexp.MustCompile(`\.(\d+)\.`)
)

// moduleRole returns the role and the layer of an adapter's module.
func (m *merged) moduleRole(module string, format *adapterFormat) (role string, layer int, ok bool) {
	number := layerNumber.FindStringSubmatch(module)
	if number == nil {
		return "", 0, false
	}
	layer, err := strconv.Atoi(number[1])
	if err != nil || layer >= len(m.spec.Layers) || m.spec.Layers[layer].HeadDim == 0 {
		return "", 0, false
	}
	part := ggufModule.FindStringSubmatch(module)
	for _, role := range matrixRoles {
		name := m.family.HFName(role, layer)
		switch {
		case !format.gguf && slices.ContainsFunc(nameRoots, func(r nameRoot) bool { return r.of(name) == module }):
			return role, layer, true
		case format.gguf && part != nil && part[2] == m.family.GGUFRole(role):
			return role, layer, true
		}
	}
	return "", 0, false
}

// projections are the queries, keys and values of a layer as files have them.
type projections struct {
	order           [3][][2]int // rows of each in a fused tensor
	heads           [3]int
	d               int
	adjacent, fused bool
}

// rows returns where the rows of a projection are. They are counted as a safetensors file with a tensor for each has them.
func (p *projections) rows(which Projection) []int {
	n := p.heads[which] * p.d
	runs := [][2]int{{0, n}}
	if p.fused {
		runs = p.order[which]
	}
	var stored []int
	for _, r := range runs {
		for i := range r[1] {
			stored = append(stored, r[0]+i)
		}
	}
	if !p.adjacent || which == projectV {
		return stored
	}
	out := make([]int, n)
	for i := range out {
		head, at, half := i/p.d*p.d, i%p.d, p.d/2
		out[i] = stored[head+at%half*2+at/half]
	}
	return out
}

// layout returns the projections of a layer in files of a format.
func (m *merged) layout(layer int, gguf, adjacent, fused bool) *projections {
	l := &m.spec.Layers[layer]
	p := &projections{heads: [3]int{m.spec.Heads, l.KVHeads, l.KVHeads}, d: l.HeadDim, adjacent: adjacent, fused: fused}
	for which := range p.order {
		p.order[which] = m.tensors.fusedRows(gguf, Projection(which), l.KVHeads, l.HeadDim)
	}
	return p
}

// counterparts returns the tensors that hold the rows of a module's matrix; none if it is not known where they are.
func (m *merged) counterparts(module string, format *adapterFormat, rows int) (parts []counterpart) {
	if m.spec == nil || m.spec.HasState() || m.spec.Latent.Rank > 0 || m.spec.AltUp.Streams > 0 {
		return nil // GGUF files have other numbers or rows
	}
	role, layer, ok := m.moduleRole(module, format)
	if !ok {
		return nil
	}
	find := func(role string) *store.Tensor {
		i, ok := m.Index[m.tensors.name(role, layer)+".weight"]
		if !ok || len(m.Visible[i].Shape) != 2 {
			return nil
		}
		return &m.Visible[i]
	}
	if which := slices.Index(ProjectionRoles[:], role); which >= 0 || role == "attn_qkv" {
		return m.projectionParts(layer, Projection(which), format, rows, find)
	}
	gate, up := find("ffn_gate"), find("ffn_up")
	if role == "ffn_up" && gate != nil && up != nil && rows == gate.Rows()+up.Rows() {
		return []counterpart{{gate, span(0, gate.Rows())}, {up, span(gate.Rows(), up.Rows())}}
	}
	if t := find(role); t != nil {
		parts = append(parts, counterpart{t: t})
	}
	return parts
}

// span returns n numbers from first on.
func span(first, n int) []int {
	rows := make([]int, n)
	for i := range rows {
		rows[i] = first + i
	}
	return rows
}

// projectionParts is counterparts for a projection, or for all of them in one module if which is negative.
func (m *merged) projectionParts(layer int, which Projection, format *adapterFormat, rows int, find func(string) *store.Tensor) (parts []counterpart) {
	theirs := m.layout(layer, format.gguf, format.adjacent, which < 0)
	want := []Projection{which}
	if which < 0 {
		want = []Projection{projectQ, projectK, projectV}
	}
	all := 0
	for _, p := range want {
		all += theirs.heads[p] * theirs.d
	}
	fused := find("attn_qkv")
	ours := m.layout(layer, m.gguf, m.adjacent, fused != nil)
	if all != rows {
		return nil // such as queries with gates between them
	}
	for _, p := range want {
		t := fused
		if t == nil {
			t = find(ProjectionRoles[p])
		}
		if t == nil {
			return nil
		}
		if fused == nil || len(parts) == 0 {
			parts = append(parts, counterpart{t, slices.Repeat([]int{-1}, t.Rows())})
		}
		from, to := theirs.rows(p), parts[len(parts)-1].rows
		for i, row := range ours.rows(p) {
			if row >= len(to) {
				return nil // the shape is another one
			}
			to[row] = from[i]
		}
	}
	return parts
}

// targets returns the tensors that an adapter's module of so many rows changes.
func (m *merged) targets(module string, format *adapterFormat, root nameRoot, rows int, dir string) ([]counterpart, error) {
	t, err := m.target(module, root, dir)
	same := format.gguf == m.gguf
	if same && err == nil && (t.Rows() == rows || len(t.Shape) != 2) {
		return []counterpart{{t: t}}, nil
	}
	if parts := m.counterparts(module, format, rows); parts != nil {
		return parts, nil
	}
	switch {
	case !same:
		return nil, fmt.Errorf("%w: %s: the adapter changes %s; for a model in the other of the formats safetensors and GGUF it is known only where the matrices of attention and of the MLP are in common families: take an adapter in the model's format", arch.ErrUnsupported, dir, module)
	case err != nil:
		return nil, err
	}
	return []counterpart{{t: t}}, nil
}

// fusedTensors returns the names of the tensors that a pack stores as several, and whose parts counterparts finds there.
func (f *Files) fusedTensors() map[string]bool {
	names := map[string]bool{}
	s, err := f.Spec()
	if err != nil || s.HasState() || s.Latent.Rank > 0 {
		return names
	}
	ts := f.TensorSet()
	for l := range s.Layers {
		names[ts.name("attn_qkv", l)+".weight"] = true
		if _, apart := ts.Find("ffn_gate", l, ".weight"); !apart && s.Gated {
			names[ts.name("ffn_up", l)+".weight"] = true
		}
	}
	return names
}
