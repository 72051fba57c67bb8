package modeltest

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
)

// rows is a tensor in memory. Its outermost axis counts rows; most conversions do not interpret
// a row's content.
type rows struct {
	name  string
	typ   quant.Type
	shape []int
	data  []byte
}

func readRows(t testing.TB, src store.Source, tensor store.Tensor) *rows {
	t.Helper()
	r := &rows{tensor.Name, tensor.Type, tensor.Shape, make([]byte, tensor.Size)}
	_, err := src.ReadAt(tensor, r.data, 0)
	require.NoError(t, err)
	return r
}

// pick returns the rows with the given indices, in that order.
func (r *rows) pick(order []int) *rows {
	size := len(r.data) / r.shape[0]
	out := &rows{typ: r.typ, shape: slices.Clone(r.shape)}
	out.shape[0] = len(order)
	for _, row := range order {
		out.data = append(out.data, r.data[row*size:(row+1)*size]...)
	}
	return out
}

// interleaved moves the two rows of each rotary pair, which are half a head apart, next to each
// other.
func (r *rows) interleaved(heads int) *rows {
	width := r.shape[0] / heads
	order := make([]int, r.shape[0])
	for i := range order {
		head, at := i/width, i%width
		order[i] = head*width + at%2*(width/2) + at/2
	}
	return r.pick(order)
}

// span returns the integers from first up to first+n.
func span(first, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = first + i
	}
	return out
}

// floats returns the elements as float32 numbers.
func (r *rows) floats() []float32 {
	out := make([]float32, modelfile.Elems(r.shape))
	quant.DequantRow(r.typ, out, r.data)
	return out
}

// float32s returns the tensor as F32 without axes of length 1, which converters remove from
// convolutions.
func (r *rows) float32s() *rows {
	out := &rows{typ: quant.F32, shape: slices.DeleteFunc(slices.Clone(r.shape), func(n int) bool { return n == 1 })}
	for _, v := range r.floats() {
		out.appendFloat(v)
	}
	return out
}

// plusOne adds 1 to every element.
func (r *rows) plusOne() *rows {
	out := &rows{typ: quant.F32, shape: r.shape}
	for _, v := range r.floats() {
		out.appendFloat(v + 1)
	}
	return out
}

func (r *rows) appendFloat(v float32) {
	r.data = binary.LittleEndian.AppendUint32(r.data, math.Float32bits(v))
}
