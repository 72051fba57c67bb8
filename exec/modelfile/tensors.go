package modelfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
)

// TensorSet finds a model's tensors by role, independent of their names in the file, and
// checks their shapes.
type TensorSet struct {
	Source store.Source
	family *arch.Family
	Hyper  *arch.Hyper
	root   nameRoot // of the safetensors names
	head   string   // safetensors name of the output matrix; "": as root says
	Path   string
	// packed: the source is a pack, with GGUF names and no fused or stacked tensors.
	packed bool
}

// ByteRange is a range of bytes of a tensor.
type ByteRange struct {
	Tensor       store.Tensor
	Offset, Size int64 // within the tensor
}

// TensorSlice is a matrix made of rows of a tensor: the byte ranges to read, in order, and
// the shape.
type TensorSlice struct {
	Type       quant.Type
	Rows, Cols int
	Ranges     []ByteRange
}

// Bytes returns the size of the slice in the file.
func (s *TensorSlice) Bytes() int64 {
	var n int64
	for _, g := range s.Ranges {
		n += g.Size
	}
	return n
}

// Find returns the tensor of a role; ok is false if the file has none.
func (ts *TensorSet) Find(role string, layer int, suffix string) (store.Tensor, bool) {
	name := ts.name(role, layer)
	t, ok := ts.Source.Tensor(name + suffix)
	if older := olderSuffixes[suffix]; !ok && older != "" && !ts.Hyper.GGUF && !ts.packed {
		t, ok = ts.Source.Tensor(name + older)
	}
	return t, ok
}

// olderSuffixes are those of the norms of the first bert checkpoints.
var olderSuffixes = map[string]string{".weight": ".gamma", ".bias": ".beta"}

// Matrix returns all rows of a required tensor. rows 0 means any number.
func (ts *TensorSet) Matrix(role string, layer, rows, cols int) (TensorSlice, error) {
	t, ok := ts.Find(role, layer, ".weight")
	if !ok {
		return TensorSlice{}, ts.Missing(role, layer)
	}
	return ts.allRows(t, rows, cols)
}

// LayerRows returns the rows of a layer in a matrix that has those of all layers, one after the
// other; a pack has them in tensors of their own.
func (ts *TensorSet) LayerRows(role string, layer, layers, rows, cols int) (TensorSlice, error) {
	if ts.packed {
		return ts.Matrix(role, layer, rows, cols)
	}
	all, err := ts.Matrix(role, -1, layers*rows, cols)
	if err != nil {
		return TensorSlice{}, err
	}
	return all.SubRows(layer*rows, rows), nil
}

// Missing returns the error for a required tensor that the file lacks.
func (ts *TensorSet) Missing(role string, layer int) error {
	return fmt.Errorf("%w: %s: tensor %s.weight is missing", arch.ErrModel, ts.Path, ts.name(role, layer))
}

// allRows returns all rows of a tensor as a matrix of cols columns.
func (ts *TensorSet) allRows(t store.Tensor, rows, cols int) (TensorSlice, error) {
	have, err := ts.RowsOf(t, cols)
	if err != nil {
		return TensorSlice{}, err
	}
	if have == 0 || (rows != 0 && have != rows) {
		return TensorSlice{}, ts.ShapeError(t, rows, cols)
	}
	return TensorSlice{t.Type, have, cols, []ByteRange{{t, 0, t.Size}}}, nil
}

// RowsOf returns how many rows of cols elements a tensor has. It ignores axes of length 1:
// a vector is a matrix of one row.
func (ts *TensorSet) RowsOf(t store.Tensor, cols int) (int, error) {
	shape := slices.DeleteFunc(slices.Clone(t.Shape), func(n int) bool { return n == 1 })
	switch {
	case len(shape) == 2 && shape[1] == cols:
		return shape[0], nil
	case len(shape) == 1 && shape[0] == cols:
		return 1, nil
	case len(shape) == 1 && cols == 1:
		return shape[0], nil
	}
	return 0, ts.ShapeError(t, 0, cols)
}

// ShapeError returns the error for a tensor t whose shape is not [rows, cols]; rows 0 means
// any number.
func (ts *TensorSet) ShapeError(t store.Tensor, rows, cols int) error {
	want := fmt.Sprintf("[%d %d]", rows, cols)
	if rows == 0 {
		want = fmt.Sprintf("[… %d]", cols)
	}
	return fmt.Errorf("%w: %s: tensor %s has the shape %v, not %s", arch.ErrModel, ts.Path, t.Name, t.Shape, want)
}

// selectRows returns ranges of rows, one after the other. A range is the first row and the
// number of rows.
func (s TensorSlice) selectRows(runs ...[2]int) TensorSlice {
	rowBytes := s.Bytes() / int64(s.Rows)
	out := TensorSlice{Type: s.Type, Cols: s.Cols}
	for _, r := range runs {
		out.Rows += r[1]
		out.Ranges = append(out.Ranges, ByteRange{s.Ranges[0].Tensor, int64(r[0]) * rowBytes, int64(r[1]) * rowBytes})
	}
	return out
}

// SubRows returns n rows from row first on, out of the slice's ranges.
func (s TensorSlice) SubRows(first, n int) TensorSlice {
	rowBytes := s.Bytes() / int64(s.Rows)
	out := TensorSlice{Type: s.Type, Rows: n, Cols: s.Cols}
	skip, left := int64(first)*rowBytes, int64(n)*rowBytes
	for _, g := range s.Ranges {
		from := min(skip, g.Size)
		size := min(left, g.Size-from)
		if skip -= from; size > 0 {
			out.Ranges = append(out.Ranges, ByteRange{g.Tensor, g.Offset + from, size})
			left -= size
		}
	}
	return out
}

// Vector returns an optional vector of n elements. The result reports whether the file has
// it.
func (ts *TensorSet) Vector(role string, layer int, suffix string, n int) (TensorSlice, bool, error) {
	t, ok := ts.Find(role, layer, suffix)
	if !ok {
		return TensorSlice{}, false, nil
	}
	if Elems(t.Shape) != n {
		return TensorSlice{}, true, fmt.Errorf("%w: %s: tensor %s has %d elements (shape %v), not %d",
			arch.ErrModel, ts.Path, t.Name, Elems(t.Shape), t.Shape, n)
	}
	return TensorSlice{t.Type, 1, n, []ByteRange{{t, 0, t.Size}}}, true, nil
}

// Elems returns the number of elements in a tensor of this shape.
func Elems(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// Projection is the query, key or value projection.
type Projection int

const (
	projectQ Projection = iota
	projectK
	projectV
)

// ProjectionRoles are the roles of the matrices that a fused query/key/value projection
// contains.
var ProjectionRoles = [...]string{"attn_q", "attn_k", "attn_v"}

// qkvRows returns the rows of one projection in a fused tensor.
func (ts *TensorSet) qkvRows(p Projection, kvHeads, d int) [][2]int {
	return ts.fusedRows(ts.Hyper.GGUF, p, kvHeads, d)
}

// fusedRows is qkvRows for GGUF or safetensors files of the model.
func (ts *TensorSet) fusedRows(gguf bool, p Projection, kvHeads, d int) [][2]int {
	heads := ts.Hyper.Heads
	order := ts.family.QKV
	if gguf {
		order = arch.QKVBlocks
	}
	switch order {
	case arch.QKVPerHead:
		runs := make([][2]int, heads)
		for i := range runs {
			runs[i] = [2]int{(i*3 + int(p)) * d, d}
		}
		return runs
	case arch.QKVPerKV:
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

// QKV returns a projection to heads of d elements and its bias, from a tensor of its own or from a fused one.
func (ts *TensorSet) QKV(p Projection, layer, kvHeads, d int) (w, bias TensorSlice, hasBias bool, err error) {
	rows := d * kvHeads
	if p == projectQ {
		rows = d * ts.Hyper.Heads
	}
	if _, ok := ts.Find(ProjectionRoles[p], layer, ".weight"); ok {
		if w, err = ts.Matrix(ProjectionRoles[p], layer, rows, ts.Hyper.Dim); err != nil {
			return
		}
		bias, hasBias, err = ts.Vector(ProjectionRoles[p], layer, ".bias", rows)
		return
	}
	fused, ok := ts.Find("attn_qkv", layer, ".weight")
	if !ok {
		return w, bias, false, ts.Missing(ProjectionRoles[p], layer)
	}
	all := d * (ts.Hyper.Heads + 2*kvHeads)
	if w, err = ts.allRows(fused, all, ts.Hyper.Dim); err != nil {
		return
	}
	runs := ts.qkvRows(p, kvHeads, d)
	w = w.selectRows(runs...)
	if bias, hasBias, err = ts.Vector("attn_qkv", layer, ".bias", all); err != nil || !hasBias {
		return
	}
	bias.Rows, bias.Cols = all, 1
	bias = bias.selectRows(runs...)
	bias.Rows, bias.Cols = 1, rows
	return
}

// GateUp returns an MLP's gate and up projections. A fused tensor contains the gate first.
func (ts *TensorSet) GateUp(gateRole, upRole string, layer int) (gate, up TensorSlice, err error) {
	if up, err = ts.Matrix(upRole, layer, 0, ts.Hyper.Dim); err != nil {
		return
	}
	if _, ok := ts.Find(gateRole, layer, ".weight"); ok {
		gate, err = ts.Matrix(gateRole, layer, up.Rows, ts.Hyper.Dim)
		return
	}
	if up.Rows%2 != 0 {
		return gate, up, ts.Missing(gateRole, layer)
	}
	half := up.Rows / 2
	return up.selectRows([2]int{0, half}), up.selectRows([2]int{half, half}), nil
}

// GateUpBias returns the bias of n elements of an MLP's gate (i = 0) or up projection (1), if there is one. That of a fused
// tensor contains the gate's first.
func (ts *TensorSet) GateUpBias(gateRole, upRole string, layer, i, n int) (bias TensorSlice, ok bool, err error) {
	if _, apart := ts.Find(gateRole, layer, ".weight"); apart {
		return ts.Vector([]string{gateRole, upRole}[i], layer, ".bias", n)
	}
	if bias, ok, err = ts.Vector(upRole, layer, ".bias", 2*n); !ok || err != nil {
		return bias, ok, err
	}
	bias.Rows, bias.Cols = 2*n, 1
	bias = bias.SubRows(i*n, n)
	bias.Rows, bias.Cols = 1, n
	return bias, true, nil
}

// Expert returns one expert's matrix: a slice of a stacked tensor, or a tensor of its own.
func (ts *TensorSet) Expert(role string, layer, i, experts, rows, cols int) (TensorSlice, error) {
	single := ExpertRole(strings.TrimSuffix(role, "_exps"), i)
	if ts.packed {
		return ts.Matrix(single, layer, rows, cols)
	}
	if pattern := ts.name(role, layer); strings.Contains(pattern, "%") {
		name := fmt.Sprintf(pattern, i) + ".weight"
		t, ok := ts.Source.Tensor(name)
		if s, stacked, err := ts.stackedExpert(role, layer, i, experts, rows, cols); !ok && stacked {
			return s, err
		}
		if !ok {
			return TensorSlice{}, fmt.Errorf("%w: %s: tensor %s is missing", arch.ErrModel, ts.Path, name)
		}
		return ts.allRows(t, rows, cols)
	}
	if t, ok := ts.findStack(role, layer); ok {
		all, err := ts.stack(t, experts, rows, cols)
		if err != nil {
			return TensorSlice{}, err
		}
		n := all.Rows / experts
		return all.selectRows([2]int{i * n, n}), nil
	}
	if t, ok := ts.findStack("ffn_gate_up_exps", layer); ok && role != "ffn_down_exps" {
		return ts.fusedExpert(t, role, i, experts, rows, cols)
	}
	// Old GGUF files store each expert in a tensor of its own.
	return ts.Matrix(single, layer, rows, cols)
}

// ExpertBias returns the bias of one expert's matrix: a row of a stacked tensor, or a tensor of its own.
func (ts *TensorSet) ExpertBias(role string, layer, i, experts, rows int) (TensorSlice, bool, error) {
	if ts.packed {
		return ts.Vector(ExpertRole(strings.TrimSuffix(role, "_exps"), i), layer, ".bias", rows)
	}
	s, ok, err := ts.Vector(role, layer, ".bias", experts*rows)
	if !ok || err != nil {
		return s, ok, err
	}
	s.Rows, s.Cols = experts, rows
	return s.selectRows([2]int{i, 1}), true, nil
}

// findStack returns a tensor with the matrices of all experts. Safetensors files may name it without a
// suffix.
func (ts *TensorSet) findStack(role string, layer int) (t store.Tensor, ok bool) {
	if t, ok = ts.Find(role, layer, ".weight"); !ok && !ts.Hyper.GGUF {
		t, ok = ts.Find(role, layer, "")
	}
	return t, ok
}

// fusedExpert returns one expert's gate or up projection from a stacked tensor that
// contains both, the gate first.
func (ts *TensorSet) fusedExpert(t store.Tensor, role string, i, experts, rows, cols int) (TensorSlice, error) {
	all, err := ts.stack(t, experts, 2*rows, cols)
	if err != nil {
		return TensorSlice{}, err
	}
	if all.Rows%(2*experts) != 0 {
		return TensorSlice{}, ts.stackError(t, experts, cols)
	}
	n := all.Rows / experts / 2 // rows of gate, and of up behind it
	first := 2 * i * n
	if role == "ffn_up_exps" {
		first += n
	}
	return all.selectRows([2]int{first, n}), nil
}

// ExpertRole returns the role of one expert's matrix if it is a tensor of its own.
func ExpertRole(role string, i int) string { return fmt.Sprintf("%s.%d", role, i) }

// stack returns the matrices of all experts, stacked. rows is that of one expert; 0 means
// any number.
func (ts *TensorSet) stack(t store.Tensor, experts, rows, cols int) (TensorSlice, error) {
	if len(t.Shape) != 3 || t.Shape[0] != experts || t.Shape[2] != cols || (rows != 0 && t.Shape[1] != rows) {
		return TensorSlice{}, ts.stackError(t, experts, cols)
	}
	return TensorSlice{t.Type, t.Shape[0] * t.Shape[1], cols, []ByteRange{{t, 0, t.Size}}}, nil
}

func (ts *TensorSet) stackError(t store.Tensor, experts, cols int) error {
	return fmt.Errorf("%w: %s: tensor %s has the shape %v, not [%d … %d]", arch.ErrModel, ts.Path, t.Name, t.Shape, experts, cols)
}

// TensorName returns the GGUF name of a tensor; layer -1 means the ends of the network.
func TensorName(role string, layer int, suffix string) string {
	if layer < 0 {
		return role + suffix
	}
	return fmt.Sprintf("blk.%d.%s%s", layer, role, suffix)
}
