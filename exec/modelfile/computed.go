package modelfile

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
)

// Overlay is a Source in which some tensors appear with another type than on flash. The
// type that embeds it computes their rows in ReadAt.
type Overlay struct {
	store.Source
	Visible []store.Tensor // the tensors as they appear
	Index   map[string]int
}

// NewOverlay returns an overlay with the tensors of src unchanged.
func NewOverlay(src store.Source) Overlay {
	o := emptyOverlay(src)
	for _, t := range src.Tensors() {
		o.add(t)
	}
	return o
}

// emptyOverlay returns an overlay without tensors.
func emptyOverlay(src store.Source) Overlay { return Overlay{Source: src, Index: map[string]int{}} }

// add adds a tensor.
func (o *Overlay) add(t store.Tensor) {
	o.Index[t.Name] = len(o.Visible)
	o.Visible = append(o.Visible, t)
}

// Tensors lists the tensors as they appear.
func (o *Overlay) Tensors() []store.Tensor { return o.Visible }

// Tensor returns the tensor with a name, as it appears.
func (o *Overlay) Tensor(name string) (store.Tensor, bool) {
	i, ok := o.Index[name]
	if !ok {
		return store.Tensor{}, false
	}
	return o.Visible[i], true
}

// ReadComputed reads bytes of a tensor with computed rows. row returns the bytes of one
// row, which are valid until the next call.
func ReadComputed(t store.Tensor, p []byte, off int64, row func(i int) ([]byte, error)) (int, error) {
	if off < 0 || off+int64(len(p)) > t.Size {
		return 0, fmt.Errorf("%w: tensor %s: bytes %d to %d lie outside its %d bytes", arch.ErrModel, t.Name, off, off+int64(len(p)), t.Size)
	}
	rowBytes := t.Size / int64(max(t.Rows(), 1))
	for n := 0; n < len(p); {
		at := off + int64(n)
		data, err := row(int(at / rowBytes))
		if err != nil {
			return n, err
		}
		n += copy(p[n:], data[at%rowBytes:])
	}
	return len(p), nil
}

// ReadRow reads and decodes one row of a tensor.
func ReadRow(src store.Source, t store.Tensor, row []float32 /* [cols] */, i int) error {
	raw := make([]byte, t.Size/int64(t.Rows()))
	if _, err := src.ReadAt(t, raw, int64(i)*int64(len(raw))); err != nil {
		return err
	}
	quant.DequantRow(t.Type, row, raw)
	return nil
}

// AppendFloats appends floats in the byte order of files.
func AppendFloats(dst []byte, x []float32) []byte {
	for _, v := range x {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(v))
	}
	return dst
}
