// Package store describes the tensors of model files on flash: each has a name, a number
// format, a shape and a location in a file.
//
// The readers are in the subpackages: gguf and safetensors read the formats of published
// models, pack reads this project's own format. Each returns a [Source]. A reader checks
// every value from a file before it uses it: each tensor of an open Source is inside its
// file, has the number of bytes that its shape and type require, and shares no byte with
// another tensor. Malformed files produce a [FormatError].
//
// The other subpackages support the readers. vfs provides all file access. digest hashes
// whole files and remembers the hashes. crc computes the block checksums, and gcm decrypts blocks.
// w8a8 stores calibrations. synth writes models of random weights for measurements.
//
// Begin with [Tensor] and [Source].
package store

import (
	"io"
	"math"
	"math/bits"

	"github.com/llmrun/llmrun/quant"
)

// Tensor describes one tensor and its location on flash.
type Tensor struct {
	Name string
	Type quant.Type
	// Shape is in row-major order, outermost dimension first, whatever order the file
	// format uses: a matrix is [rows, cols] and the elements of a row are contiguous. A
	// scalar has no dimensions.
	Shape  []int
	File   int   // index into Source.Files
	Offset int64 // of the first byte in the file
	Size   int64 // bytes
}

// Cols returns the innermost dimension, the length of a row; 1 for a scalar.
func (t Tensor) Cols() int {
	if len(t.Shape) == 0 {
		return 1
	}
	return t.Shape[len(t.Shape)-1]
}

// Rows returns the number of rows over all outer dimensions.
func (t Tensor) Rows() int {
	rows := 1
	for i := 0; i < len(t.Shape)-1; i++ {
		rows *= t.Shape[i]
	}
	return rows
}

// Source is an open model file or set of files. It is safe for concurrent use until Close.
type Source interface {
	// Tensors returns all tensors in file order. The Source owns the slice: callers must
	// not change it.
	Tensors() []Tensor
	// Tensor returns the tensor with the given name.
	Tensor(name string) (Tensor, bool)
	// ReadAt fills p with the tensor's bytes that begin at off in the tensor. It reads all
	// of p or returns an error. It rejects a range outside the tensor. Errors name the file
	// and the offset in the file.
	ReadAt(t Tensor, p []byte, off int64) (int, error)
	// Files returns the paths that Tensor.File indexes.
	Files() []string
	io.Closer
}

// Bytes returns the storage of a tensor with the given type and shape. ok is false if a
// dimension is negative or the size overflows int64. It returns an error if a row is not a
// whole number of blocks of t.
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
