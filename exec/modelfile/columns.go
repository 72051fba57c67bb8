package modelfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/safetensors"
)

// columnWeight is a tensor [experts, rows, cols] that is stored transposed, [experts, cols, rows]: every step-th row.
type columnWeight struct {
	base        store.Tensor
	first, step int
}

// unpackColumns returns a checkpoint of the family whose experts are floats, stored transposed, with these as they are used.
func unpackColumns(src *safetensors.Dir, path string) (store.Source, error) {
	m := &storedExperts{emptyOverlay(src), map[string]expertRows{}, map[string]mxBias{}}
	var columns []store.Tensor
	for _, t := range src.Tensors() {
		if isColumns(t) {
			columns = append(columns, t)
		} else {
			m.addVector(t)
		}
	}
	for _, t := range columns { // after the tensors whose names theirs must not be
		if err := m.addColumns(path, t); err != nil {
			return src, err
		}
	}
	return m, nil
}

// isColumns reports whether a tensor holds matrices of experts that are stored transposed: its name has no suffix.
func isColumns(t store.Tensor) bool {
	return len(t.Shape) == 3 && (strings.HasSuffix(t.Name, ".experts."+fusedProjection) || strings.HasSuffix(t.Name, ".experts.down_proj"))
}

// addColumns adds the parts of a stored tensor.
func (m *storedExperts) addColumns(path string, t store.Tensor) error {
	if t.Type.BlockElems() != 1 {
		return fmt.Errorf("%w: %s: tensor %s has the type %v; experts are stored as floats, or as blocks of MXFP4", arch.ErrUnsupported, path, t.Name, t.Type)
	}
	base, fused := strings.CutSuffix(t.Name, fusedProjection)
	if !fused {
		return m.addPart(t.Name, path, t.Type, columnWeight{t, 0, 1})
	}
	if t.Shape[2]%2 != 0 {
		return fmt.Errorf("%w: %s: tensor %s has an odd number of columns, %d", arch.ErrModel, path, t.Name, t.Shape[2])
	}
	for i, part := range fusedParts {
		if err := m.addPart(base+part, path, t.Type, columnWeight{t, i, 2}); err != nil {
			return err
		}
	}
	return nil
}

// shape returns the experts, rows and columns of the tensor.
func (w columnWeight) shape() []int {
	return []int{w.base.Shape[0], w.base.Shape[2] / w.step, w.base.Shape[1]}
}

// stored returns the tensor with its bytes.
func (w columnWeight) stored() store.Tensor { return w.base }

// readAt fills p with bytes of rows. It reads the rows of one expert together.
func (w columnWeight) readAt(src store.Source, p []byte, off int64) (n int, err error) {
	size := int64(w.base.Type.BlockBytes())
	rows, rowBytes := int64(w.base.Shape[2]/w.step), int64(w.base.Shape[1])*size
	b := rowPool.Get().(*rowBuffers)
	defer rowPool.Put(b)
	for end := off + int64(len(p)); off < end; {
		row := off / rowBytes
		to := min(end, (row/rows+1)*rows*rowBytes) // the end of the expert
		if err := w.readExpert(src, b, p[n:n+int(to-off)], row, off-row*rowBytes); err != nil {
			return n, err
		}
		n += int(to - off)
		off = to
	}
	return n, nil
}

// readExpert fills p with rows of one expert from a row on, without the first skip bytes.
func (w columnWeight) readExpert(src store.Source, b *rowBuffers, p []byte, row, skip int64) error {
	size, width := int64(w.base.Type.BlockBytes()), int64(w.base.Shape[2])
	cols := int64(w.base.Shape[1])
	count := (skip + int64(len(p)) + cols*size - 1) / (cols * size)
	rows := width / int64(w.step)
	start := row / rows * cols * width // of the expert, in elements
	from, span := (row%rows)*int64(w.step)+int64(w.first), (count-1)*int64(w.step)+1
	together := int64(1) // stored rows that are read at once
	if 4*span > width {
		from, span, together = 0, width, max(1, computedBytes/(width*size))
	}
	at := (row%rows)*int64(w.step) + int64(w.first) - from
	for c := int64(0); c < cols; c += together {
		m := min(together, cols-c)
		b.raw = resized(b.raw, int(m*span*size))
		if _, err := src.ReadAt(w.base, b.raw, (start+c*width+from)*size); err != nil {
			return err
		}
		for i := range m {
			scatter(p, b.raw[(i*span+at)*size:(i+1)*span*size], size, int64(w.step)*size, cols*size, (c+i)*size-skip, count)
		}
	}
	return nil
}

// scatter copies count elements of size bytes, every stride bytes of from, to every pitch bytes of p. What lies outside of p is
// left out.
func scatter(p, from []byte, size, stride, pitch, at, count int64) {
	for k := range count {
		in, to := from[k*stride:k*stride+size], at+k*pitch
		if to < 0 {
			in = in[min(size, -to):]
			to = 0
		}
		if to < int64(len(p)) {
			copy(p[to:], in)
		}
	}
}

// withoutBlocks reports whether a checkpoint has float experts, whatever its configuration says.
func withoutBlocks(src *safetensors.Dir) bool {
	return slices.ContainsFunc(src.Tensors(), isColumns) &&
		!slices.ContainsFunc(src.Auxiliaries(), func(name string) bool { return strings.HasSuffix(name, blocksSuffix) })
}
