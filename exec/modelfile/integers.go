package modelfile

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/safetensors"
)

// Suffixes of the tensors that form one packed weight.
const (
	codesSuffix  = ".qweight"
	zerosSuffix  = ".qzeros"
	scalesSuffix = ".scales"
	groupsSuffix = ".g_idx"
)

// intBlock is the number of consecutive elements with one scale in the types that packed
// weights are converted to.
const intBlock = 32

// intMatrix is one packed weight: its tensors and the type it is converted to.
type intMatrix struct {
	*arch.IntPacking
	codes, zeros, scales store.Tensor
	rows, cols, groups   int
	groupOf              []int32 // [cols] the group of each input
	order                []int32 // [cols] the input of each column; nil = input order
	// typ is Q4_0 or Q8_0 if all zeros are centered, I4Z if each block of columns belongs
	// to one group, otherwise F32. Each of them represents the weight exactly.
	typ quant.Type
}

// unpacked is a checkpoint whose packed integers appear as weights. It converts rows as
// they are read.
type unpacked struct {
	Overlay
	matrices map[string]*intMatrix // by the name of the weight
	orders   map[string][]int32    // [cols] by the name of the tensor
}

// UnpackIntegers returns the checkpoint with its packed weights as tensors of quantized
// types, and warnings for the user.
func UnpackIntegers(src *safetensors.Dir, p *arch.IntPacking, path string) (store.Source, []string, error) {
	u := &unpacked{emptyOverlay(src), map[string]*intMatrix{}, map[string][]int32{}}
	used := map[string]bool{}
	var wide widenedWeights
	for _, name := range src.Auxiliaries() {
		module, ok := strings.CutSuffix(name, codesSuffix)
		if !ok {
			continue
		}
		m, err := newIntMatrix(src, p, path, module)
		if err != nil {
			return src, nil, err
		}
		t := store.Tensor{Name: module + ".weight", Type: m.typ, Shape: []int{m.rows, m.cols}, File: m.codes.File, Offset: m.codes.Offset}
		size, fits, err := store.Bytes(t.Type, t.Shape)
		if err != nil || !fits {
			return src, nil, fmt.Errorf("%w: %s: tensor %s: shape %v is out of range", arch.ErrModel, path, name, m.codes.Shape)
		}
		t.Size = size
		wide.add(m, &t)
		used[m.scales.Name] = true
		u.addMatrix(t, m)
	}
	for _, t := range src.Tensors() {
		if _, twice := u.Index[t.Name]; twice {
			return src, nil, fmt.Errorf("%w: %s: tensor %s is stored twice: also as %s%s", arch.ErrModel, path, t.Name, strings.TrimSuffix(t.Name, ".weight"), codesSuffix)
		}
		if !used[t.Name] {
			u.add(t)
		}
	}
	return u, wide.warnings(), nil
}

// addMatrix adds a weight, and its column order if the columns are permuted.
func (u *unpacked) addMatrix(t store.Tensor, m *intMatrix) {
	u.matrices[t.Name] = m
	u.add(t)
	if m.order == nil {
		return
	}
	o := store.Tensor{Name: OrderName(t.Name), Type: quant.F32, Shape: []int{m.cols}, File: t.File, Offset: t.Offset, Size: 4 * int64(m.cols)}
	u.orders[o.Name] = m.order
	u.add(o)
}

// widenedWeights counts the weights that are converted to F32.
type widenedWeights struct {
	count         int
	packed, wider int64
}

func (w *widenedWeights) add(m *intMatrix, t *store.Tensor) {
	if t.Type == quant.F32 {
		w.count++
		w.packed += m.codes.Size + m.zeros.Size + m.scales.Size
		w.wider += t.Size
	}
}

func (w *widenedWeights) warnings() []string {
	if w.count == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d weights take %d MiB as 32-bit floats instead of %d MiB as packed integers: no smaller type represents them exactly",
		w.count, w.wider>>20, w.packed>>20)}
}

// intReader finds the tensors of one weight.
type intReader struct {
	src    *safetensors.Dir
	path   string
	module string
}

func (r *intReader) malformed(suffix, reason string, args ...any) error {
	return fmt.Errorf("%w: %s: tensor %s%s %s", arch.ErrModel, r.path, r.module, suffix, fmt.Sprintf(reason, args...))
}

// words returns a tensor of 32-bit words.
func (r *intReader) words(suffix string) (store.Tensor, error) {
	a, ok := r.src.Auxiliary(r.module + suffix)
	switch {
	case !ok:
		return store.Tensor{}, r.malformed(suffix, "is missing or does not contain integers")
	case a.Dtype != "I32" && a.Dtype != "U32":
		return store.Tensor{}, r.malformed(suffix, "has type %s, not I32", a.Dtype)
	}
	return a.Tensor, nil
}

// checkShape checks a tensor's shape.
func (r *intReader) checkShape(suffix string, t store.Tensor, shape ...int) error {
	if !slices.Equal(t.Shape, shape) {
		return r.malformed(suffix, "has the shape %v, not %v", t.Shape, shape)
	}
	return nil
}

// newIntMatrix finds and checks all tensors of one weight.
func newIntMatrix(src *safetensors.Dir, p *arch.IntPacking, path, module string) (*intMatrix, error) {
	r := &intReader{src, path, module}
	m := &intMatrix{IntPacking: p}
	for _, step := range []func(*intReader) error{m.findCodes, m.findScales, m.readGroups} {
		if err := step(r); err != nil {
			return nil, err
		}
	}
	var err error
	if m.typ, err = m.chooseType(src); m.typ == quant.F32 {
		m.order = nil // F32 needs no sorting
	}
	return m, err
}

// findCodes finds the codes, which determine the shape of the weight.
func (m *intMatrix) findCodes(r *intReader) (err error) {
	if m.codes, err = r.words(codesSuffix); err != nil {
		return err
	}
	if len(m.codes.Shape) != 2 || m.codes.Size == 0 {
		return r.malformed(codesSuffix, "has the shape %v, which is not a matrix", m.codes.Shape)
	}
	perWord := 32 / m.Bits
	m.cols, m.rows = m.codes.Shape[0]*perWord, m.codes.Shape[1]
	if m.AWQ {
		m.cols, m.rows = m.codes.Shape[0], m.codes.Shape[1]*perWord
	}
	if m.rows%perWord != 0 {
		return r.malformed(codesSuffix, "has the shape %v: %d outputs do not fill whole words of zeros", m.codes.Shape, m.rows)
	}
	m.groups = 1
	if m.Group > 0 {
		m.groups = (m.cols + m.Group - 1) / m.Group
	}
	return nil
}

// findScales finds the scales and zeros of the groups.
func (m *intMatrix) findScales(r *intReader) (err error) {
	var ok bool
	if m.scales, ok = r.src.Tensor(r.module + scalesSuffix); !ok {
		return r.malformed(scalesSuffix, "is missing")
	}
	if m.zeros, err = r.words(zerosSuffix); err != nil {
		return err
	}
	if err := r.checkShape(scalesSuffix, m.scales, m.groups, m.rows); err != nil {
		return err
	}
	return r.checkShape(zerosSuffix, m.zeros, m.groups, m.rows/(32/m.Bits))
}

// readGroups determines the group of each input: consecutive groups, unless a g_idx tensor
// assigns them. Writers that do not permute inputs leave a g_idx of zeros, which is
// ignored.
func (m *intMatrix) readGroups(r *intReader) error {
	m.groupOf = make([]int32, m.cols)
	if m.Group > 0 {
		for i := range m.groupOf {
			m.groupOf[i] = int32(i / m.Group)
		}
	}
	if _, ok := r.src.Auxiliary(r.module + groupsSuffix); !ok || m.AWQ {
		return nil
	}
	t, err := r.words(groupsSuffix)
	if err != nil {
		return err
	}
	if err := r.checkShape(groupsSuffix, t, m.cols); err != nil {
		return err
	}
	raw := make([]byte, t.Size)
	if _, err := r.src.ReadAt(t, raw, 0); err != nil {
		return err
	}
	if !slices.ContainsFunc(raw, func(b byte) bool { return b != 0 }) {
		return nil
	}
	for i := range m.groupOf {
		g := binary.LittleEndian.Uint32(raw[4*i:])
		if g >= uint32(m.groups) {
			return r.malformed(groupsSuffix, "puts input %d into group %d of %d", i, int32(g), m.groups)
		}
		m.groupOf[i] = int32(g)
	}
	return nil
}

// chooseType returns the smallest type that represents the weight exactly.
func (m *intMatrix) chooseType(src store.Source) (quant.Type, error) {
	if !m.blocksInGroups() && !m.sortByGroup() {
		return quant.F32, nil
	}
	if exact, err := m.scalesAreF16(src); err != nil || !exact {
		return quant.F32, err
	}
	middle, err := m.zerosCentered(src)
	switch {
	case err != nil:
		return quant.F32, err
	case m.Bits == 4 && middle:
		return quant.Q4_0, nil
	case m.Bits == 4:
		return quant.I4Z, nil
	case middle:
		return quant.Q8_0, nil
	}
	return quant.F32, nil
}

// blocksInGroups reports whether the inputs of each block belong to one group.
func (m *intMatrix) blocksInGroups() bool {
	if m.cols%intBlock != 0 {
		return false
	}
	for i := range m.cols {
		if m.groupOf[m.input(i)] != m.groupOf[m.input(i/intBlock*intBlock)] {
			return false
		}
	}
	return true
}

// input returns the input of a column.
func (m *intMatrix) input(column int) int {
	if m.order == nil {
		return column
	}
	return int(m.order[column])
}

// sortByGroup sorts the columns by group, and reports whether each block then belongs to
// one group. Matrices of experts stay unsorted: an expert's slot has no place for the
// order tensor.
func (m *intMatrix) sortByGroup() bool {
	if strings.Contains(m.codes.Name, ".experts.") {
		return false
	}
	m.order = make([]int32, m.cols)
	for i := range m.order {
		m.order[i] = int32(i)
	}
	slices.SortStableFunc(m.order, func(a, b int32) int { return cmp.Compare(m.groupOf[a], m.groupOf[b]) })
	return m.blocksInGroups()
}

// scalesAreF16 reports whether float16 represents all scales exactly, whatever type they
// are stored in.
func (m *intMatrix) scalesAreF16(src store.Source) (bool, error) {
	if m.scales.Type == quant.F16 {
		return true, nil
	}
	row := make([]float32, m.rows)
	for g := range m.groups {
		if err := ReadRow(src, m.scales, row, g); err != nil {
			return false, err
		}
		for _, v := range row {
			if quant.F16ToF32(quant.F32ToF16(v)) != v {
				return false, nil
			}
		}
	}
	return true, nil
}

// zerosCentered reports whether every zero is half of the code range. It stops reading at
// the first other zero.
func (m *intMatrix) zerosCentered(src store.Source) (bool, error) {
	mask := uint32(1)<<m.Bits - 1
	var word uint32
	for shift := 0; shift < 32; shift += m.Bits {
		word |= ((mask+1)/2 - m.ZeroOffset) & mask << shift
	}
	var want [4]byte
	binary.LittleEndian.PutUint32(want[:], word)
	raw := make([]byte, min(m.zeros.Size, 1<<16))
	for off := int64(0); off < m.zeros.Size; off += int64(len(raw)) {
		raw = raw[:min(int64(len(raw)), m.zeros.Size-off)]
		if _, err := src.ReadAt(m.zeros, raw, off); err != nil {
			return false, err
		}
		for i, b := range raw {
			if b != want[i%4] {
				return false, nil
			}
		}
	}
	return true, nil
}
