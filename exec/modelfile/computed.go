package modelfile

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

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

// computedBytes is roughly how many bytes of stored rows ReadComputed reads at a time.
const computedBytes = 64 << 10

// rowBuffers is the memory for computing rows.
type rowBuffers struct {
	raw []byte    // stored rows
	row []float32 // [cols]
	out []byte    // a computed row
}

// rowPool holds idle buffers: weights that are converted while they are used must not make
// garbage in each pass.
var rowPool = sync.Pool{New: func() any { return new(rowBuffers) }}

// ReadComputed reads bytes of a tensor t whose rows are computed from the decoded rows of a stored
// one, base. compute fills out with row i of t.
func ReadComputed(src store.Source, base, t store.Tensor, p []byte, off int64, compute func(out []byte, row []float32, i int) error) (int, error) {
	if err := checkRange(t, p, off); err != nil || len(p) == 0 {
		return 0, err
	}
	rows := int64(max(t.Rows(), 1))
	size, stored := t.Size/rows, base.Size/rows
	b := rowPool.Get().(*rowBuffers)
	defer rowPool.Put(b)
	b.row, b.out = resized(b.row, t.Cols()), resized(b.out, int(size))
	first, end := off/size, (off+int64(len(p))+size-1)/size
	for n := 0; first < end; {
		count := min(end-first, max(1, computedBytes/stored))
		b.raw = resized(b.raw, int(count*stored))
		if _, err := src.ReadAt(base, b.raw, first*stored); err != nil {
			return n, err
		}
		for i := range count {
			quant.DequantRow(base.Type, b.row, b.raw[i*stored:(i+1)*stored])
			out, skip := b.out, off+int64(n)-(first+i)*size
			if whole := p[n:]; skip == 0 && int64(len(whole)) >= size {
				out = whole[:size]
			}
			if err := compute(out, b.row, int(first+i)); err != nil {
				return n, err
			}
			n += copy(p[n:], out[skip:])
		}
		first += count
	}
	return len(p), nil
}

// checkRange returns an error if a read lies outside a computed tensor.
func checkRange(t store.Tensor, p []byte, off int64) error {
	if off < 0 || off > t.Size || int64(len(p)) > t.Size-off {
		return fmt.Errorf("%w: tensor %s: bytes %d to %d lie outside its %d bytes", arch.ErrModel, t.Name, off, off+int64(len(p)), t.Size)
	}
	return nil
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
