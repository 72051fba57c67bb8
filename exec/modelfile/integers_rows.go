package modelfile

import (
	"encoding/binary"
	"math"
	"sync"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
)

// maxPanelCodes limits how many codes are unpacked at a time.
const maxPanelCodes = 1 << 22

// ReadAt reads a tensor and converts the rows of packed weights.
func (u *unpacked) ReadAt(t store.Tensor, p []byte, off int64) (int, error) {
	if order := u.orders[t.Name]; order != nil {
		return readOrder(t, order, p, off)
	}
	m := u.matrices[t.Name]
	if m == nil {
		return u.Source.ReadAt(t, p, off)
	}
	if err := checkRange(t, p, off); err != nil {
		return 0, err
	}
	rowBytes := t.Size / int64(m.rows)
	panel := panelPool.Get().(*intPanel)
	defer panelPool.Put(panel)
	panel.intMatrix, panel.src = m, u.Source
	for n := 0; n < len(p); {
		at := off + int64(n)
		first := int(at / rowBytes)
		last := int((off + int64(len(p)) + rowBytes - 1) / rowBytes)
		last = min(last, first+max(1, maxPanelCodes/m.cols))
		if err := panel.read(first, last-first); err != nil {
			return n, err
		}
		panel.out = panel.out[:0]
		for row := range last - first {
			panel.out = panel.appendRow(panel.out, row)
		}
		n += copy(p[n:], panel.out[at-int64(first)*rowBytes:])
	}
	return len(p), nil
}

// readOrder reads bytes of a column order as floats, the type of vectors in packs.
func readOrder(t store.Tensor, order []int32, p []byte, off int64) (int, error) {
	if err := checkRange(t, p, off); err != nil {
		return 0, err
	}
	values := make([]float32, len(order))
	for i, input := range order {
		values[i] = float32(input)
	}
	return copy(p, AppendFloats(nil, values)[off:]), nil
}

// intPanel is a panel of unpacked rows of a weight.
type intPanel struct {
	*intMatrix
	src store.Source

	n       int
	codes   []uint8   // [n, cols]
	zeros   []uint8   // [n, groups]
	scales  []float32 // [n, groups]
	sorted  [intBlock]uint8
	scratch []byte
	values  []float32 // [n] scales of a group
	out     []byte    // converted rows
}

// panelPool holds idle panels.
var panelPool = sync.Pool{New: func() any { return new(intPanel) }}

// read unpacks n rows, from row first on.
func (p *intPanel) read(first, n int) error {
	p.n = n
	p.codes = resized(p.codes, n*p.cols)
	p.zeros, p.scales = resized(p.zeros, n*p.groups), resized(p.scales, n*p.groups)
	read := p.unpackByInput
	if p.AWQ {
		read = func(first int) error { return p.unpackByOutput(p.codes, p.intMatrix.codes, p.cols, first, 0) }
	}
	if err := read(first); err != nil {
		return err
	}
	if err := p.unpackByOutput(p.zeros, p.intMatrix.zeros, p.groups, first, p.ZeroOffset); err != nil {
		return err
	}
	return p.readScales(first)
}

// resized returns a slice of n elements with undefined values.
func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// readRange reads the bytes lo to hi of row i of a matrix with rows of rowBytes.
func (p *intPanel) readRange(t store.Tensor, rowBytes, i, lo, hi int) ([]byte, error) {
	p.scratch = resized(p.scratch, hi-lo)
	_, err := p.src.ReadAt(t, p.scratch, int64(i)*int64(rowBytes)+int64(lo))
	return p.scratch, err
}

// unpackByInput unpacks GPTQ codes: a word contains consecutive inputs of one output.
func (p *intPanel) unpackByInput(first int) error {
	perWord, mask := 32/p.Bits, uint32(1)<<p.Bits-1
	for w := range p.cols / perWord {
		raw, err := p.readRange(p.intMatrix.codes, 4*p.rows, w, 4*first, 4*(first+p.n))
		if err != nil {
			return err
		}
		for row := range p.n {
			word := binary.LittleEndian.Uint32(raw[4*row:])
			dst := p.codes[row*p.cols+w*perWord:][:perWord]
			for k := range dst {
				dst[k] = uint8(word & mask)
				word >>= p.Bits
			}
		}
	}
	return nil
}

// awqOrder is the position of each of eight outputs in an AWQ word.
var awqOrder = [8]int{0, 4, 1, 5, 2, 6, 3, 7}

// inputsPerBatch is the number of inputs, or groups, whose words are unpacked at a time. The
// words then stay in the cache while all rows of the panel are unpacked from them.
const inputsPerBatch = 64

// unpackByOutput unpacks words that contain consecutive outputs of one input or group, and
// adds add to each number. count is the number of inputs or groups.
func (p *intPanel) unpackByOutput(dst []uint8 /* [n, count] */, t store.Tensor, count, first int, add uint32) error {
	perWord, mask := 32/p.Bits, uint32(1)<<p.Bits-1
	lo, hi := first/perWord, (first+p.n+perWord-1)/perWord
	size := 4 * (hi - lo)
	p.scratch = resized(p.scratch, min(count, inputsPerBatch)*size)
	for i := 0; i < count; i += inputsPerBatch {
		n := min(inputsPerBatch, count-i)
		for k := range n {
			off := 4 * (int64(i+k)*int64(p.rows/perWord) + int64(lo))
			if _, err := p.src.ReadAt(t, p.scratch[k*size:(k+1)*size], off); err != nil {
				return err
			}
		}
		for row := range p.n {
			at := first + row
			place := at % perWord
			if p.AWQ {
				place = awqOrder[place]
			}
			raw := p.scratch[4*(at/perWord-lo):]
			for k := range n {
				word := binary.LittleEndian.Uint32(raw[k*size:])
				dst[row*count+i+k] = uint8((word>>(p.Bits*place) + add) & mask)
			}
		}
	}
	return nil
}

// readScales reads the scales of the rows.
func (p *intPanel) readScales(first int) error {
	t := p.intMatrix.scales
	size := t.Type.BlockBytes()
	p.values = resized(p.values, p.n)
	for g := range p.groups {
		raw, err := p.readRange(t, size*p.rows, g, size*first, size*(first+p.n))
		if err != nil {
			return err
		}
		quant.DequantRow(t.Type, p.values, raw)
		for row, v := range p.values {
			p.scales[row*p.groups+g] = v
		}
	}
	return nil
}

// appendRow appends a row in the weight's type.
func (p *intPanel) appendRow(dst []byte, row int) []byte {
	codes := p.codes[row*p.cols : (row+1)*p.cols]
	zeros, scales := p.zeros[row*p.groups:], p.scales[row*p.groups:]
	if p.typ == quant.F32 {
		for i, c := range codes {
			g := p.groupOf[i]
			v := scales[g] * float32(int(c)-int(zeros[g]))
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(v))
		}
		return dst
	}
	for b := 0; b < len(codes); b += intBlock {
		g, block := p.groupOf[p.input(b)], codes[b:b+intBlock]
		if p.order != nil {
			for i, input := range p.order[b : b+intBlock] {
				p.sorted[i] = codes[input]
			}
			block = p.sorted[:]
		}
		dst = binary.LittleEndian.AppendUint16(dst, quant.F32ToF16(scales[g]))
		switch p.typ {
		case quant.Q8_0:
			for _, c := range block {
				dst = append(dst, c^0x80)
			}
			continue
		case quant.I4Z:
			dst = append(dst, zeros[g])
		}
		for i, c := range block[:intBlock/2] {
			dst = append(dst, c|block[intBlock/2+i]<<4)
		}
	}
	return dst
}
