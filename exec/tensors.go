package exec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
)

// tensorSet finds a model's tensors by role, whichever way the file names
// them, and checks their shapes.
type tensorSet struct {
	src  store.Source
	fam  *family
	h    *Hyper
	pre  string // before every safetensors name, for models with several parts
	path string
	// packed: the source is a pack, whose names are those of GGUF files and in
	// which nothing is fused or stacked.
	packed bool
}

// prefixes that models with several parts put before the language model's
// tensors, the usual one (none) first.
var namePrefixes = []string{"", "language_model.", "model.language_model."}

func newTensorSet(src store.Source, fam *family, h *Hyper, packed bool) *tensorSet {
	ts := &tensorSet{src: src, fam: fam, h: h, path: h.path, packed: packed}
	if h.GGUF || packed {
		return ts
	}
	for _, p := range namePrefixes {
		ts.pre = p
		if _, ok := src.Tensor(ts.name("token_embd", -1) + ".weight"); ok {
			return ts
		}
	}
	ts.pre = ""
	return ts
}

// name returns the file's name of a role without ".weight" or ".bias".
func (ts *tensorSet) name(role string, layer int) string {
	if ts.h.GGUF || ts.packed {
		return tensorName(role, layer, "")
	}
	name := ts.fam.hfName(role, layer)
	if ts.pre == "model.language_model." { // this one takes the place of "model."
		return ts.pre + strings.TrimPrefix(name, "model.")
	}
	return ts.pre + name
}

// segment is a run of bytes of a tensor.
type segment struct {
	tensor    store.Tensor
	off, size int64 // within the tensor
}

// slot is where a tensor's rows will go: what to read, in order, and the
// matrix that it makes.
type slot struct {
	typ        quant.Type
	rows, cols int
	segs       []segment
}

func (s *slot) bytes() int64 {
	var n int64
	for _, g := range s.segs {
		n += g.size
	}
	return n
}

// find returns the tensor of a role; ok is false where the file has none.
func (ts *tensorSet) find(role string, layer int, suffix string) (store.Tensor, bool) {
	return ts.src.Tensor(ts.name(role, layer) + suffix)
}

// matrix returns the rows of a tensor that must be there. rows 0 means any
// number.
func (ts *tensorSet) matrix(role string, layer, rows, cols int) (slot, error) {
	t, ok := ts.find(role, layer, ".weight")
	if !ok {
		return slot{}, ts.missing(role, layer)
	}
	return ts.whole(t, rows, cols)
}

func (ts *tensorSet) missing(role string, layer int) error {
	return fmt.Errorf("%w: %s: tensor %s.weight is missing", ErrModel, ts.path, ts.name(role, layer))
}

// whole returns all rows of a tensor as a matrix of cols columns.
func (ts *tensorSet) whole(t store.Tensor, rows, cols int) (slot, error) {
	have, err := ts.rowsOf(t, cols)
	if err != nil {
		return slot{}, err
	}
	if have == 0 || (rows != 0 && have != rows) {
		return slot{}, ts.shapeError(t, rows, cols)
	}
	return slot{t.Type, have, cols, []segment{{t, 0, t.Size}}}, nil
}

// rowsOf returns how many rows of cols elements a tensor has. Axes of length 1
// do not matter: a vector is a matrix of one row.
func (ts *tensorSet) rowsOf(t store.Tensor, cols int) (int, error) {
	shape := slices.DeleteFunc(slices.Clone(t.Shape), func(n int) bool { return n == 1 })
	switch {
	case len(shape) == 2 && shape[1] == cols:
		return shape[0], nil
	case len(shape) == 1 && shape[0] == cols:
		return 1, nil
	case len(shape) == 1 && cols == 1:
		return shape[0], nil
	}
	return 0, ts.shapeError(t, 0, cols)
}

func (ts *tensorSet) shapeError(t store.Tensor, rows, cols int) error {
	want := fmt.Sprintf("[%d %d]", rows, cols)
	if rows == 0 {
		want = fmt.Sprintf("[… %d]", cols)
	}
	return fmt.Errorf("%w: %s: tensor %s has the shape %v, not %s", ErrModel, ts.path, t.Name, t.Shape, want)
}

// cut returns the given runs of rows of a slot, one after the other.
func (s slot) cut(runs ...[2]int) slot {
	rowBytes := s.bytes() / int64(s.rows)
	out := slot{typ: s.typ, cols: s.cols}
	for _, r := range runs {
		out.rows += r[1]
		out.segs = append(out.segs, segment{s.segs[0].tensor, int64(r[0]) * rowBytes, int64(r[1]) * rowBytes})
	}
	return out
}

// vector returns n elements that must be there.
func (ts *tensorSet) vector(role string, layer int, suffix string, n int) (slot, bool, error) {
	t, ok := ts.find(role, layer, suffix)
	if !ok {
		return slot{}, false, nil
	}
	if elems(t.Shape) != n {
		return slot{}, true, fmt.Errorf("%w: %s: tensor %s has %d elements (shape %v), not %d",
			ErrModel, ts.path, t.Name, elems(t.Shape), t.Shape, n)
	}
	return slot{t.Type, 1, n, []segment{{t, 0, t.Size}}}, true, nil
}

func elems(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// part says which of queries, keys and values is meant.
type part int

const (
	partQ part = iota
	partK
	partV
)

var partRoles = [...]string{"attn_q", "attn_k", "attn_v"}

// qkvRuns returns the rows of a fused projection that belong to one part.
func (ts *tensorSet) qkvRuns(p part, kvHeads int) [][2]int {
	d, heads := ts.h.HeadDim, ts.h.Heads
	order := ts.fam.qkv
	if ts.h.GGUF {
		order = qkvBlocks
	}
	switch order {
	case qkvPerHead:
		runs := make([][2]int, heads)
		for i := range runs {
			runs[i] = [2]int{(i*3 + int(p)) * d, d}
		}
		return runs
	case qkvPerKV:
		group := heads / kvHeads
		runs := make([][2]int, kvHeads)
		for i := range runs {
			first := i * (group + 2) * d
			runs[i] = [...][2]int{{first, group * d}, {first + group*d, d}, {first + (group+1)*d, d}}[p]
		}
		return runs
	}
	return [][2]int{[...][2]int{{0, heads * d}, {heads * d, kvHeads * d}, {(heads + kvHeads) * d, kvHeads * d}}[p]}
}

// qkv returns the projection of queries, keys or values and its bias, from a
// tensor of its own or from a fused one.
func (ts *tensorSet) qkv(p part, layer, kvHeads int) (w, bias slot, hasBias bool, err error) {
	rows := ts.h.HeadDim * kvHeads
	if p == partQ {
		rows = ts.h.HeadDim * ts.h.Heads
	}
	if _, ok := ts.find(partRoles[p], layer, ".weight"); ok {
		if w, err = ts.matrix(partRoles[p], layer, rows, ts.h.Dim); err != nil {
			return
		}
		bias, hasBias, err = ts.vector(partRoles[p], layer, ".bias", rows)
		return
	}
	fused, ok := ts.find("attn_qkv", layer, ".weight")
	if !ok {
		return w, bias, false, ts.missing(partRoles[p], layer)
	}
	all := ts.h.HeadDim * (ts.h.Heads + 2*kvHeads)
	if w, err = ts.whole(fused, all, ts.h.Dim); err != nil {
		return
	}
	runs := ts.qkvRuns(p, kvHeads)
	w = w.cut(runs...)
	if bias, hasBias, err = ts.vector("attn_qkv", layer, ".bias", all); err != nil || !hasBias {
		return
	}
	bias.rows, bias.cols = all, 1
	bias = bias.cut(runs...)
	bias.rows, bias.cols = 1, rows
	return
}

// gateUp returns an MLP's gate and up projections, which some files keep in
// one tensor, gate first.
func (ts *tensorSet) gateUp(layer int) (gate, up slot, err error) {
	if up, err = ts.matrix("ffn_up", layer, 0, ts.h.Dim); err != nil {
		return
	}
	if _, ok := ts.find("ffn_gate", layer, ".weight"); ok {
		gate, err = ts.matrix("ffn_gate", layer, up.rows, ts.h.Dim)
		return
	}
	if up.rows%2 != 0 {
		return gate, up, ts.missing("ffn_gate", layer)
	}
	half := up.rows / 2
	return up.cut([2]int{0, half}), up.cut([2]int{half, half}), nil
}

// expert returns one expert's matrix: a slice of a stacked tensor, or a tensor
// of its own.
func (ts *tensorSet) expert(role string, layer, i, experts, rows, cols int) (slot, error) {
	apart := expertRole(strings.TrimSuffix(role, "_exps"), i)
	if ts.packed {
		return ts.matrix(apart, layer, rows, cols)
	}
	if !ts.h.GGUF {
		name := fmt.Sprintf(ts.name(role, layer), i) + ".weight"
		t, ok := ts.src.Tensor(name)
		if !ok {
			return slot{}, fmt.Errorf("%w: %s: tensor %s is missing", ErrModel, ts.path, name)
		}
		return ts.whole(t, rows, cols)
	}
	if t, ok := ts.find(role, layer, ".weight"); ok {
		all, err := ts.stack(t, experts, rows, cols)
		if err != nil {
			return slot{}, err
		}
		n := all.rows / experts
		return all.cut([2]int{i * n, n}), nil
	}
	if t, ok := ts.find("ffn_gate_up_exps", layer, ".weight"); ok && role != "ffn_down_exps" {
		all, err := ts.stack(t, experts, 2*rows, cols)
		if err != nil {
			return slot{}, err
		}
		if all.rows%(2*experts) != 0 {
			return slot{}, ts.stackError(t, experts, cols)
		}
		n := all.rows / experts / 2 // of the gate, and of up behind it
		first := 2 * i * n
		if role == "ffn_up_exps" {
			first += n
		}
		return all.cut([2]int{first, n}), nil
	}
	// Files of the format's first year keep experts apart.
	return ts.matrix(apart, layer, rows, cols)
}

// expertRole returns the role of one expert's matrix where it is a tensor of
// its own.
func expertRole(role string, i int) string { return fmt.Sprintf("%s.%d", role, i) }

// stack returns the matrices of all experts, one below the other. rows, of one
// expert, may be 0 for any number.
func (ts *tensorSet) stack(t store.Tensor, experts, rows, cols int) (slot, error) {
	if len(t.Shape) != 3 || t.Shape[0] != experts || t.Shape[2] != cols || (rows != 0 && t.Shape[1] != rows) {
		return slot{}, ts.stackError(t, experts, cols)
	}
	return slot{t.Type, t.Shape[0] * t.Shape[1], cols, []segment{{t, 0, t.Size}}}, nil
}

func (ts *tensorSet) stackError(t store.Tensor, experts, cols int) error {
	return fmt.Errorf("%w: %s: tensor %s has the shape %v, not [%d … %d]", ErrModel, ts.path, t.Name, t.Shape, experts, cols)
}
