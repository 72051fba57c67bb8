// Package store describes models as they lie on flash: tensors with a name, a
// number format, a shape and a place in a file.
//
// The readers are in the subpackages gguf and safetensors; both give a
// [Source]. Whatever a file claims is checked before it is believed: every
// tensor of an open Source lies inside its file, has the number of bytes that
// its shape and format ask for, and shares no byte with another one.
package store

import (
	"io"
	"math"
	"math/bits"

	"github.com/llmrun/llmrun/quant"
)

// Tensor is one tensor's place on flash.
type Tensor struct {
	Name string
	Type quant.Type
	// Shape is in row-major order, outermost dimension first: a matrix is
	// [rows, cols] with the elements of a row side by side, whatever order the
	// file format itself uses. A scalar has no dimensions.
	Shape  []int
	File   int   // index into Source.Files
	Offset int64 // of the first byte in that file
	Size   int64 // bytes
}

// Cols returns the length of a row, the innermost dimension; 1 for a scalar.
func (t Tensor) Cols() int {
	if len(t.Shape) == 0 {
		return 1
	}
	return t.Shape[len(t.Shape)-1]
}

// Rows returns how many rows there are over all outer dimensions.
func (t Tensor) Rows() int {
	rows := 1
	for i := 0; i < len(t.Shape)-1; i++ {
		rows *= t.Shape[i]
	}
	return rows
}

// Source is an open model file or set of files. It is safe for concurrent use
// until Close.
type Source interface {
	// Tensors returns all tensors, in the order of the files. The slice
	// belongs to the Source: read only.
	Tensors() []Tensor
	// Tensor finds a tensor by name.
	Tensor(name string) (Tensor, bool)
	// ReadAt fills p from the tensor's bytes, beginning off bytes into the
	// tensor. It reads all of p or fails: a range outside the tensor is
	// refused, and errors name the file and the offset in it.
	ReadAt(t Tensor, p []byte, off int64) (int, error)
	// Files returns the paths that Tensor.File counts.
	Files() []string
	io.Closer
}

// Bytes returns the storage that a tensor of the given shape needs. ok is false
// when a dimension is negative or a product does not fit; a shape whose rows
// are not whole blocks of t gives an error.
func Bytes(t quant.Type, shape []int) (size int64, ok bool, err error) {
	cols := 1
	if len(shape) > 0 {
		cols = shape[len(shape)-1]
	}
	rowBytes, err := t.RowBytes(cols)
	if err != nil {
		return 0, true, err
	}
	total := uint64(rowBytes)
	for i := 0; i < len(shape)-1; i++ {
		if shape[i] < 0 {
			return 0, false, nil
		}
		high, low := bits.Mul64(total, uint64(shape[i]))
		if high != 0 || low > math.MaxInt64 {
			return 0, false, nil
		}
		total = low
	}
	return int64(total), true, nil
}
