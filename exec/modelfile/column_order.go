package modelfile

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
)

// OrderSuffix ends the name of a tensor that lists the input of each column of a matrix.
// GPTQ may scatter the inputs of a group over a row. Sorted columns give each block one
// scale.
const OrderSuffix = ".order"

// OrderName returns the name of the tensor with the column order of a matrix.
func OrderName(weight string) string { return strings.TrimSuffix(weight, ".weight") + OrderSuffix }

// IsOrder reports whether a tensor is the column order of another one.
func IsOrder(src store.Source, name string) bool {
	module, ok := strings.CutSuffix(name, OrderSuffix)
	if ok {
		_, ok = src.Tensor(module + ".weight")
	}
	return ok
}

// CheckOrder returns an error if order is not a permutation of its indices.
func CheckOrder(name string, order []float32) error {
	seen := make([]bool, len(order))
	for i, v := range order {
		if !(v >= 0 && int(v) < len(order)) || float32(int(v)) != v || seen[int(v)] {
			return fmt.Errorf("%w: tensor %s: input %v of column %d is out of range or occurs twice", arch.ErrModel, name, v, i)
		}
		seen[int(v)] = true
	}
	return nil
}

// inputOrder is a model whose matrices have their columns in input order. Matrices that are
// stored in another order appear as F32.
type inputOrder struct {
	Overlay
	orders map[string][]float32 // [cols] by the name of the matrix
}

// InInputOrder returns the model's tensors with all columns in input order.
func (f *Files) InInputOrder() (store.Source, error) { return newInputOrder(f.Source, f.Path) }

func newInputOrder(src store.Source, path string) (store.Source, error) {
	v := &inputOrder{emptyOverlay(src), map[string][]float32{}}
	for _, t := range src.Tensors() {
		if IsOrder(src, t.Name) {
			continue
		}
		o, ok := src.Tensor(OrderName(t.Name))
		if !ok {
			v.add(t)
			continue
		}
		order, err := ReadFloats(src, o)
		if err == nil {
			err = CheckOrder(o.Name, order)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if len(order) != t.Cols() {
			return nil, fmt.Errorf("%w: %s: tensor %s has %d elements, but a row has %d", arch.ErrModel, path, o.Name, len(order), t.Cols())
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

// TensorsFor returns the tensors for exact or integer computation: only integer matmuls
// support permuted columns.
func (f *Files) TensorsFor(exact bool) (*TensorSet, error) {
	ts := f.TensorSet()
	if !exact {
		return ts, nil
	}
	var err error
	ts.Source, err = f.InInputOrder()
	return ts, err
}

// ReadAt reads a tensor and sorts its columns.
func (v *inputOrder) ReadAt(t store.Tensor, p []byte, off int64) (int, error) {
	order := v.orders[t.Name]
	if order == nil {
		return v.Source.ReadAt(t, p, off)
	}
	base, _ := v.Source.Tensor(t.Name)
	return ReadComputed(v.Source, base, t, p, off, func(out []byte, row []float32, _ int) error {
		for k, at := range order {
			binary.LittleEndian.PutUint32(out[4*int(at):], math.Float32bits(row[k]))
		}
		return nil
	})
}
