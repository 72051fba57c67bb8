package exec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
)

// orderSuffix ends the names of tensors that list, for a matrix of that name,
// which input each of its columns belongs to. GPTQ may spread the inputs of a
// group over a row; with their columns side by side, blocks have one scale.
const orderSuffix = ".order"

// orderOf returns the name of the tensor that has the order of a matrix.
func orderOf(weight string) string { return strings.TrimSuffix(weight, ".weight") + orderSuffix }

// IsOrder reports whether a tensor has the order of another one's columns.
func IsOrder(src store.Source, name string) bool {
	module, ok := strings.CutSuffix(name, orderSuffix)
	if ok {
		_, ok = src.Tensor(module + ".weight")
	}
	return ok
}

// checkOrder refuses a list that is no order of its own length.
func checkOrder(name string, order []float32) error {
	seen := make([]bool, len(order))
	for i, v := range order {
		if !(v >= 0 && int(v) < len(order)) || float32(int(v)) != v || seen[int(v)] {
			return fmt.Errorf("%w: tensor %s: input %v of column %d is out of range or occurs twice", ErrModel, name, v, i)
		}
		seen[int(v)] = true
	}
	return nil
}

// ordered is a matrix with the order of its columns.
type ordered struct {
	matrix *Matrix
	name   string
	order  []float32 // [Cols]
}

// putOrder plans the order of a matrix that was planned as s, if it has one.
func (ld *loader) putOrder(m *Matrix, role string, layer int, s *slot) error {
	name := orderOf(s.segs[0].tensor.Name)
	t, ok := ld.ts.src.Tensor(name)
	if !ok {
		return nil
	}
	if elems(t.Shape) != s.cols {
		return ld.ts.shapeError(t, 1, s.cols)
	}
	o := &ordered{matrix: m, name: name}
	ld.orders = append(ld.orders, o)
	ld.plan = append(ld.plan, placement{
		name: tensorName(role, layer, orderSuffix), slot: slot{t.Type, 1, s.cols, []segment{{t, 0, t.Size}}}, vector: &o.order,
	})
	return nil
}

// giveOrders checks the orders that were read and gives them to their matrices.
// Neighbours with the same one share it, so that their inputs are rounded once.
func (ld *loader) giveOrders() error {
	for i, o := range ld.orders {
		if err := checkOrder(o.name, o.order); err != nil {
			return fmt.Errorf("%s: %w", ld.ts.path, err)
		}
		if i > 0 && slices.Equal(ld.orders[i-1].order, o.order) {
			o.order = ld.orders[i-1].order
		}
		o.matrix.Order = o.order
	}
	return nil
}

// inOrder is a model whose matrices have a column for each input, in the order
// of the inputs; those that are stored otherwise become F32.
type inOrder struct {
	overlay
	orders map[string][]float32 // [cols] by the name of the matrix
}

// InOrder returns the model's tensors with their columns in the order of the
// inputs.
func (f *Files) InOrder() (store.Source, error) { return newInOrder(f.Source, f.Path) }

func newInOrder(src store.Source, path string) (store.Source, error) {
	v := &inOrder{emptyOverlay(src), map[string][]float32{}}
	for _, t := range src.Tensors() {
		if IsOrder(src, t.Name) {
			continue
		}
		o, ok := src.Tensor(orderOf(t.Name))
		if !ok {
			v.add(t)
			continue
		}
		order, err := readFloats(src, o)
		if err == nil {
			err = checkOrder(o.Name, order)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if len(order) != t.Cols() {
			return nil, fmt.Errorf("%w: %s: tensor %s has %d elements, not the %d of a row", ErrModel, path, o.Name, len(order), t.Cols())
		}
		v.orders[t.Name] = order
		t.Type, t.Size = quant.F32, int64(t.Rows())*int64(t.Cols())*4
		v.add(t)
	}
	if len(v.orders) == 0 {
		return src, nil
	}
	return v, nil
}

// tensorsFor returns the tensors for a model that is computed exactly, or not:
// only products in integers can take columns in any order.
func (f *Files) tensorsFor(exact bool) (*tensorSet, error) {
	ts := f.tensors()
	if !exact {
		return ts, nil
	}
	var err error
	ts.src, err = f.InOrder()
	return ts, err
}

// ReadAt reads a tensor; columns are put in order.
func (v *inOrder) ReadAt(t store.Tensor, p []byte, off int64) (int, error) {
	order := v.orders[t.Name]
	if order == nil {
		return v.Source.ReadAt(t, p, off)
	}
	base, _ := v.Source.Tensor(t.Name)
	row, sorted := make([]float32, t.Cols()), make([]float32, t.Cols())
	var out []byte
	return readComputed(t, p, off, func(i int) ([]byte, error) {
		if err := readRow(v.Source, base, row, i); err != nil {
			return nil, err
		}
		for k, at := range order {
			sorted[int(at)] = row[k]
		}
		out = appendFloats(out[:0], sorted)
		return out, nil
	})
}
