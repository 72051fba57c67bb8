package gguf

import (
	"fmt"
	"math"
	"slices"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
)

const (
	// minTensorBytes is the size of the shortest entry: name length, a one-byte name, rank,
	// type, offset.
	minTensorBytes = stringLengthBytes + 1 + 4 + 4 + 8
	// maxNameBytes is the limit of the reference implementation.
	maxNameBytes = 63
	maxRank      = 4
	// maxTensors limits the memory of the table. A model of a thousand layers with a matrix
	// for each of a hundred experts has fewer.
	maxTensors = 1 << 17

	alignmentKey     = "general.alignment"
	defaultAlignment = 32
	// maxAlignment is eight times the largest common huge page.
	maxAlignment = 16 << 20
)

// alignment returns the alignment of tensor offsets.
func (m *Metadata) alignment() (int64, error) {
	e := m.find(alignmentKey)
	if e == nil {
		return defaultAlignment, nil
	}
	if e.kind != kindUint32 {
		return 0, m.wrongKind(e, "uint32")
	}
	if e.bits == 0 || e.bits&(e.bits-1) != 0 || e.bits > maxAlignment {
		return 0, m.Errorf(alignmentKey, "%d is not a power of two from 1 to %d", e.bits, maxAlignment)
	}
	return int64(e.bits), nil
}

// tensorCost bounds the memory of a tensor besides its name: its entry in the table, while
// that is copied for a split model, its shape, and its places in the indexes by name and by
// role.
const tensorCost = 512

// tensors reads the tensor table. The offsets remain relative to the data section, which
// begins after the table.
func (r *reader) tensors(n int) []store.Tensor {
	if !r.reserve(tensorCost * int64(n)) {
		return nil
	}
	table := make([]store.Tensor, 0, n)
	for range n {
		t := r.tensor()
		if r.err != nil {
			return nil
		}
		table = append(table, t)
	}
	return table
}

func tensorField(name string) field { return field{"tensor", name} }

// tensor reads the next entry of the table.
func (r *reader) tensor() store.Tensor {
	name := r.tensorName()
	f := tensorField(name)
	t := store.Tensor{Name: name, Shape: r.shape(f)}
	typeID, offset := r.u32(f), r.u64(f)
	if r.err != nil {
		return t
	}
	var err error
	if t.Type, err = quant.FromGGUF(typeID); err != nil {
		r.setError(&store.FormatError{Field: f.String(), Reason: err.Error(), Hint: "convert the model to a supported type such as Q4_K_M", Kind: store.ErrUnsupported})
		return t
	}
	size, fits, err := store.Bytes(t.Type, t.Shape)
	switch {
	case err != nil:
		r.fail(f, "%v", err)
	case !fits:
		r.fail(f, "the size of %v elements of %v overflows", t.Shape, t.Type)
	case offset > math.MaxInt64:
		r.fail(f, "offset %d is out of range", offset)
	}
	t.Size, t.Offset = size, int64(offset)
	return t
}

// tensorName reads the name of the next tensor.
func (r *reader) tensorName() string {
	f := field{what: "name of a tensor"}
	length := r.u64(f)
	switch {
	case r.err != nil:
	case length == 0: // as in the hole of a sparse file
		r.fail(f, "the name is empty")
	case length > maxNameBytes:
		r.fail(f, "has %d bytes, at most %d are allowed", length, maxNameBytes)
	}
	return string(r.bytes(f, length))
}

// shape reads the dimensions, which the file lists innermost first.
func (r *reader) shape(f field) []int {
	rank := r.u32(f)
	if r.err == nil && rank > maxRank {
		r.fail(f, "%d dimensions, at most %d are allowed", rank, maxRank)
	}
	if r.err != nil {
		return nil
	}
	shape := make([]int, rank)
	for i := range shape {
		dim := r.u64(f)
		if r.err == nil && (dim == 0 || dim > math.MaxInt) {
			r.fail(f, "dimension %d is %d", i, dim)
		}
		shape[i] = int(dim)
	}
	slices.Reverse(shape)
	return shape
}

// resolveOffsets makes tensor offsets relative to the file and checks that each tensor is
// inside the file. It does not require the padding after the last tensor, which some writers
// omit.
func (r *reader) resolveOffsets(table []store.Tensor, alignment, fileSize int64) error {
	dataStart := (r.off + alignment - 1) &^ (alignment - 1)
	for i := range table {
		t := &table[i]
		r.off = min(dataStart, fileSize) // reported by errors
		f := tensorField(t.Name)
		if t.Offset%alignment != 0 {
			return r.fail(f, "its offset %d is not a multiple of the alignment %d", t.Offset, alignment)
		}
		room := max(fileSize-dataStart, 0)
		if t.Offset > room || t.Size > room-t.Offset {
			return r.setError(&store.FormatError{
				Field:  f.String(),
				Reason: fmt.Sprintf("its %d bytes at %d of the data section reach beyond the end of the file (%d bytes of data)", t.Size, t.Offset, room),
				Hint:   "the download may be incomplete", Kind: store.ErrTruncated,
			})
		}
		t.Offset += dataStart
	}
	return nil
}
