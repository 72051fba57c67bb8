package quant

import (
	"encoding/binary"
	"fmt"
	"unsafe"
)

// panelBytes is the size of a decoded panel of rows. It should stay in a
// core's second-level cache while all tokens of a batch pass over it.
const panelBytes = 256 << 10

// minPanelRows keeps the kernels' register tiles full for very long rows.
const minPanelRows = 8

// Scratch is the working memory of one worker for MulRows. It must not be
// used by two goroutines at a time.
type Scratch struct {
	panel []float32 // decoded rows
}

// NewScratch returns scratch memory for matrices of up to maxCols columns.
func NewScratch(maxCols int) *Scratch {
	s := &Scratch{}
	s.reserve(maxCols)
	return s
}

// reserve makes room for a panel of rows of cols elements.
func (s *Scratch) reserve(cols int) {
	if need := panelRows(cols) * cols; need > len(s.panel) {
		s.panel = make([]float32, max(need, panelBytes/4))
	}
}

// panelRows returns how many rows of cols elements are decoded at a time: a
// multiple of minPanelRows.
func panelRows(cols int) int {
	return max(panelBytes/4/max(cols, 1)/minPanelRows, 1) * minPanelRows
}

// MulRows multiplies rows r0 to r1-1 of a weight matrix with n tokens:
//
//	y[b*yStride+r] = Dot(row r of w, x[b])   for r in [r0, r1), b in [0, n)
//
// w is a matrix of format t with rows of cols elements, of which at least r1
// are present. It is the unit of work of one thread: disjoint ranges of rows
// may run at the same time, each with its own Scratch, and the results do not
// depend on how rows or tokens are divided. Nothing is allocated unless cols
// exceeds what s was made for. Sizes that contradict each other panic.
func MulRows(y []float32 /* [n, yStride] */, yStride int, t Type, w []byte /* [rows, cols] */, cols, r0, r1 int, x []float32 /* [n, cols] */, n int, s *Scratch) {
	if r1 <= r0 || n <= 0 {
		return
	}
	rowBytes, err := t.RowBytes(cols)
	if err != nil {
		panic(err)
	}
	if r0 < 0 || len(w) < r1*rowBytes || len(x) < n*cols || len(y) < (n-1)*yStride+r1 || yStride < r1 && n > 1 {
		panic(fmt.Sprintf("quant: MulRows of rows %d to %d of %d columns and %d tokens exceeds its slices", r0, r1, cols, n))
	}
	w, y = w[r0*rowBytes:r1*rowBytes], y[r0:]
	rows := r1 - r0
	if t == F32 {
		if floats, ok := floatView(w); ok {
			active.mulF32(y, yStride, floats, cols, rows, cols, x, cols, n)
			return
		}
	}
	if n == 1 && active.gemv(y[:rows], t, w, rows, cols, x[:cols]) {
		return
	}
	s.reserve(cols)
	step := panelRows(cols)
	if n == 1 {
		step = minPanelRows // each row is used once: the first-level cache will do
	}
	for r := 0; r < rows; r += step {
		count := min(step, rows-r)
		panel := s.panel[:count*cols]
		active.dequant(t, panel, w[r*rowBytes:(r+count)*rowBytes])
		active.mulF32(y[r:], yStride, panel, cols, count, cols, x, cols, n)
	}
}

// MulRowsF32 multiplies float32 rows, wStride elements apart, with n tokens, xStride
// elements apart: y[b*yStride+r] = Dot(w[r], x[b]).
// Attention scores are such a product, with the keys of a block as rows.
func MulRowsF32(y []float32 /* [n, yStride] */, yStride int, w []float32 /* [rows, wStride] */, wStride, rows, cols int, x []float32 /* [n, xStride] */, xStride, n int) {
	if rows <= 0 || n <= 0 {
		return
	}
	if cols < 0 || len(w) < (rows-1)*wStride+cols || len(x) < (n-1)*xStride+cols || len(y) < (n-1)*yStride+rows {
		panic(fmt.Sprintf("quant: MulRowsF32 of %d rows, %d columns and %d tokens exceeds its slices", rows, cols, n))
	}
	active.mulF32(y, yStride, w, wStride, rows, cols, x, xStride, n)
}

// Dot returns the sum of a[i]*b[i], in the order of the contract. b must be at
// least as long as a.
func Dot(a, b []float32 /* [n] */) float32 { return active.dot(a, b[:len(a)]) }

// WeightedSum adds weighted rows to n outputs: o[i] += p[i][j] * v[j] for the
// tokens j in ascending order. Calls for successive ranges of tokens give what
// one call for all of them gives.
func WeightedSum(o []float32 /* [n, d] */, oStride int, p []float32 /* [n, tokens] */, pStride int, v []float32 /* [tokens, d] */, vStride, tokens, d, n int) {
	if tokens <= 0 || d <= 0 || n <= 0 {
		return
	}
	if len(o) < (n-1)*oStride+d || len(p) < (n-1)*pStride+tokens || len(v) < (tokens-1)*vStride+d {
		panic(fmt.Sprintf("quant: WeightedSum of %d outputs, %d tokens and %d elements exceeds its slices", n, tokens, d))
	}
	active.weightedSum(o, oStride, p, pStride, v, vStride, tokens, d, n)
}

// floatView returns w as float32 without copying, which takes an aligned slice
// and a little-endian processor.
func floatView(w []byte) ([]float32, bool) {
	if len(w) == 0 || uintptr(unsafe.Pointer(&w[0]))%4 != 0 || binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return nil, false
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&w[0])), len(w)/4), true
}
