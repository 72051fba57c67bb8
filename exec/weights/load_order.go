package weights

import (
	"fmt"
	"slices"

	"github.com/llmrun/llmrun/exec/modelfile"
)

// columnOrder is a matrix with the order of its columns.
type columnOrder struct {
	matrix *Matrix
	name   string
	order  []float32 // [Cols]
}

// planOrder plans the column order of a matrix that was planned as s, if the file has one.
func (ld *Loader) planOrder(m *Matrix, role string, layer int, s *modelfile.TensorSlice) error {
	name := modelfile.OrderName(s.Ranges[0].Tensor.Name)
	t, ok := ld.Tensors.Source.Tensor(name)
	if !ok {
		return nil
	}
	if modelfile.Elems(t.Shape) != s.Cols {
		return ld.Tensors.ShapeError(t, 1, s.Cols)
	}
	o := &columnOrder{matrix: m, name: name}
	ld.Orders = append(ld.Orders, o)
	ld.places = append(ld.places, Placement{
		name: modelfile.TensorName(role, layer, modelfile.OrderSuffix), Slice: modelfile.TensorSlice{Type: t.Type, Rows: 1, Cols: s.Cols, Ranges: []modelfile.ByteRange{{Tensor: t, Size: t.Size}}}, Vector: &o.order,
	})
	return nil
}

// applyOrders checks the column orders and assigns them to their matrices. Consecutive
// matrices with equal orders share one slice, so that the forward pass quantizes their
// input once.
func (ld *Loader) applyOrders() error {
	for i, o := range ld.Orders {
		if err := modelfile.CheckOrder(o.name, o.order); err != nil {
			return fmt.Errorf("%s: %w", ld.Tensors.Path, err)
		}
		if i > 0 && slices.Equal(ld.Orders[i-1].order, o.order) {
			o.order = ld.Orders[i-1].order
		}
		o.matrix.Order = o.order
	}
	return nil
}
