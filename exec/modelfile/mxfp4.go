package modelfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/safetensors"
)

// Suffixes of the tensors that form the MXFP4 weights of a layer's experts: 16 bytes of codes for
// 32 elements, and their common exponent.
const (
	blocksSuffix    = "_blocks"
	exponentsSuffix = "_scales"
)

// Sizes of a block of MXFP4.
const (
	mxElems = 32
	mxCodes = mxElems / 2
	mxBlock = 1 + mxCodes // in quant.MXFP4, behind the exponent
)

// storedExperts is a checkpoint of gpt-oss. Its experts, which are stored in MXFP4 or transposed, appear as tensors of that
// type, or of the same floats, whose rows are put together as they are read. gate and up, whose rows alternate in one tensor,
// appear separately.
type storedExperts struct {
	Overlay
	weights map[string]expertRows
	biases  map[string]mxBias
}

// expertRows is a tensor whose rows are put together from stored bytes.
type expertRows interface {
	shape() []int         // experts, rows, columns
	stored() store.Tensor // where the bytes lie
	// readAt fills p with bytes of the tensor; the range has been checked.
	readAt(src store.Source, p []byte, off int64) (int, error)
}

// mxWeight is a tensor [experts, rows, cols] of MXFP4: every step-th row of the stored ones.
type mxWeight struct {
	blocks, exponents store.Tensor
	first, step       int
}

// mxBias is a tensor [experts, rows]: every second element of the stored one.
type mxBias struct {
	base  store.Tensor
	first int
}

// fusedProjection ends the name of a tensor whose rows are those of gate and up in turn.
const fusedProjection = "gate_up_proj"

// fusedParts are its parts, in the order of their rows.
var fusedParts = [2]string{"gate_proj", "up_proj"}

// unpackMXFP4 returns the checkpoint with its experts as tensors of MXFP4.
func unpackMXFP4(src *safetensors.Dir, path string) (store.Source, error) {
	m := &storedExperts{emptyOverlay(src), map[string]expertRows{}, map[string]mxBias{}}
	for _, name := range src.Auxiliaries() {
		module, ok := strings.CutSuffix(name, blocksSuffix)
		if !ok {
			continue
		}
		if err := m.addWeight(src, path, module); err != nil {
			return src, err
		}
	}
	if len(m.weights) == 0 {
		return src, fmt.Errorf("%w: %s: quantization method mxfp4, but no tensor *%s of 8-bit integers", arch.ErrModel, path, blocksSuffix)
	}
	for _, t := range src.Tensors() {
		m.addVector(t)
	}
	return m, nil
}

// addWeight adds the tensors of one stored weight.
func (m *storedExperts) addWeight(src *safetensors.Dir, path, module string) error {
	blocks, ok := src.Auxiliary(module + blocksSuffix)
	exponents, found := src.Auxiliary(module + exponentsSuffix)
	if !ok || !found || blocks.Dtype != "U8" || exponents.Dtype != "U8" {
		return fmt.Errorf("%w: %s: tensor %s%s is missing or not of type U8", arch.ErrModel, path, module, exponentsSuffix)
	}
	b, e := blocks.Shape, exponents.Shape
	if len(b) != 4 || b[3] != mxCodes || !slices.Equal(b[:3], e) || blocks.Size == 0 {
		return fmt.Errorf("%w: %s: tensors %s%s %v and %s%s %v are no blocks of %d bytes with an exponent each",
			arch.ErrModel, path, module, blocksSuffix, b, module, exponentsSuffix, e, mxCodes)
	}
	base, fused := strings.CutSuffix(module, fusedProjection)
	if !fused {
		return m.addPart(module, path, quant.MXFP4, mxWeight{blocks.Tensor, exponents.Tensor, 0, 1})
	}
	if b[1]%2 != 0 {
		return fmt.Errorf("%w: %s: tensor %s%s has an odd number of rows, %d", arch.ErrModel, path, module, blocksSuffix, b[1])
	}
	for i, part := range fusedParts {
		if err := m.addPart(base+part, path, quant.MXFP4, mxWeight{blocks.Tensor, exponents.Tensor, i, 2}); err != nil {
			return err
		}
	}
	return nil
}

// addPart adds a tensor.
func (m *storedExperts) addPart(module, path string, typ quant.Type, w expertRows) error {
	stored := w.stored()
	t := store.Tensor{Name: module + ".weight", Type: typ, Shape: w.shape(), File: stored.File, Offset: stored.Offset}
	size, fits, err := store.Bytes(t.Type, t.Shape)
	if _, twice := m.Index[t.Name]; err != nil || !fits || twice {
		return fmt.Errorf("%w: %s: tensor %s: its shape %v is out of range, or it is stored twice", arch.ErrModel, path, stored.Name, stored.Shape)
	}
	t.Size = size
	m.weights[t.Name] = w
	m.add(t)
	return nil
}

// addVector adds another tensor: a vector under the name that the loader looks for.
func (m *storedExperts) addVector(t store.Tensor) {
	base, fused := strings.CutSuffix(t.Name, fusedProjection+"_bias")
	switch module, plain := strings.CutSuffix(t.Name, "_bias"); {
	case fused && len(t.Shape) == 2 && t.Shape[1]%2 == 0:
		for i, part := range fusedParts { // their elements alternate, as the rows do
			half := t
			half.Name, half.Shape, half.Size = base+part+".bias", []int{t.Shape[0], t.Shape[1] / 2}, t.Size/2
			m.biases[half.Name] = mxBias{t, i}
			m.add(half)
		}
		return
	case plain:
		t.Name = module + ".bias"
	case strings.HasSuffix(t.Name, ".sinks"):
		t.Name += ".weight"
	}
	m.add(t)
}

// ReadAt reads a tensor, and puts together the bytes of one that is stored otherwise.
func (m *storedExperts) ReadAt(t store.Tensor, p []byte, off int64) (int, error) {
	w, isWeight := m.weights[t.Name]
	b, isBias := m.biases[t.Name]
	if !isWeight && !isBias {
		return m.Source.ReadAt(t, p, off)
	}
	if err := checkRange(t, p, off); err != nil || len(p) == 0 {
		return 0, err
	}
	if isWeight {
		return w.readAt(m.Source, p, off)
	}
	return b.readAt(m.Source, p, off)
}

// shape returns the experts, rows and columns of the tensor.
func (w mxWeight) shape() []int {
	b := w.blocks.Shape
	return []int{b[0], b[1] / w.step, b[2] * mxElems}
}

// stored returns the tensor of the codes.
func (w mxWeight) stored() store.Tensor { return w.blocks }

// readAt fills p with bytes of rows of MXFP4.
func (w mxWeight) readAt(src store.Source, p []byte, off int64) (n int, err error) {
	perRow := int64(w.blocks.Shape[2])
	size := perRow * mxBlock
	b := rowPool.Get().(*rowBuffers)
	defer rowPool.Put(b)
	b.out = resized(b.out, int(size))
	for row := off / size; n < len(p); row++ {
		stored := row*int64(w.step) + int64(w.first)
		most := max(1, computedBytes/(perRow*mxBlock)) // rows to read at once
		last := (off + int64(len(p)) - 1) / size
		count := (min(last-row+1, most)-1)*int64(w.step) + 1
		b.raw = resized(b.raw, int(count*perRow*mxBlock))
		codes, exponents := b.raw[:count*perRow*mxCodes], b.raw[count*perRow*mxCodes:]
		if _, err := src.ReadAt(w.blocks, codes, stored*perRow*mxCodes); err != nil {
			return n, err
		}
		if _, err := src.ReadAt(w.exponents, exponents, stored*perRow); err != nil {
			return n, err
		}
		for i := int64(0); i < count; i += int64(w.step) {
			joinMXFP4(b.out, codes[i*perRow*mxCodes:(i+1)*perRow*mxCodes], exponents[i*perRow:(i+1)*perRow])
			n += copy(p[n:], b.out[off+int64(n)-row*size:])
			if i+int64(w.step) < count {
				row++
			}
		}
	}
	return n, nil
}

// joinMXFP4 writes a row of quant.MXFP4: exponents before their codes. The stored codes of
// neighbouring elements share a byte; in quant.MXFP4 elements half a block apart do.
func joinMXFP4(out, codes, exponents []byte) {
	for i, e := range exponents {
		in, block := codes[i*mxCodes:(i+1)*mxCodes], out[i*mxBlock:(i+1)*mxBlock]
		block[0] = e
		for j := range mxCodes / 2 {
			low, high := in[j], in[j+mxCodes/2]
			block[1+2*j] = low&15 | high<<4
			block[2+2*j] = low>>4 | high&0xf0
		}
	}
}

// readAt fills p with bytes of every second element.
func (b *mxBias) readAt(src store.Source, p []byte, off int64) (int, error) {
	width := int(b.base.Size / int64(Elems(b.base.Shape)))
	first := off / int64(width)
	count := (off+int64(len(p))-1)/int64(width) + 1 - first
	raw := make([]byte, (2*count-1)*int64(width))
	if _, err := src.ReadAt(b.base, raw, (2*first+int64(b.first))*int64(width)); err != nil {
		return 0, err
	}
	at := int(off - first*int64(width))
	for i := range p {
		p[i] = raw[(at+i)/width*2*width+(at+i)%width]
	}
	return len(p), nil
}
