package w8a8

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
)

const (
	// Version is that of the format, see FORMAT.md.
	Version = 1
	// Suffix is what a calibration beside a model is called behind its name.
	Suffix = ".w8a8"

	magic            = "LLMRW8A8"
	headerBytes      = 64
	checksummedBytes = 40 // of the header
	pageBytes        = 4096
	// maxIndexBytes bounds the index. A channel takes 30 bytes, and an input has
	// some thousands at most.
	maxIndexBytes = 64 << 20
	// maxInputBytes bounds an input in it: channels and matrices without fields take
	// many times more memory than text.
	maxInputBytes = 4 << 20
	// maxElems bounds rows and columns of a matrix, so that products of both with a
	// few bytes cannot overflow.
	maxElems = 1 << 26
)

// Index is all of a calibration but the columns.
type Index struct {
	Model           string  `json:"model"`
	CreatedBy       string  `json:"made"`
	Tokens          int     `json:"tokens"`
	OutlierFraction float64 `json:"outlier_share"`
	Inputs          []Input `json:"inputs"`
}

// Input is what one or more matrices are multiplied with.
type Input struct {
	Name              string    `json:"name"` // of the first matrix
	Cols              int       `json:"cols"`
	Scale             float32   `json:"scale"`
	ClippedScale      float32   `json:"alone"`
	ClippedErrorRatio float32   `json:"loss"`
	Max               float32   `json:"max"`
	Elements          int64     `json:"elements"`
	Outliers          int64     `json:"outliers"`
	Channels          []Channel `json:"channels"`
	Hot               int       `json:"hot"`
	Matrices          []Matrix  `json:"matrices"`
}

// Channel is an element of an input that exceeded its scale.
type Channel struct {
	Channel int   `json:"channel"`
	Count   int64 `json:"count"`
}

// WriteColumns as Matrix.At asks Write for the columns of a matrix.
const WriteColumns = -1

// Matrix is where the columns of a matrix are.
type Matrix struct {
	Name      string `json:"name"`
	Rows      int    `json:"rows"`
	Type      string `json:"type"`
	ColumnsAt int64  `json:"at"`
}

// Importance is how far outliers go beyond what the scale can express: an input
// of 1 has none.
func (in *Input) Importance() float64 { return float64(in.Max) / (127 * float64(in.Scale)) }

// HotFraction is the part of the outliers that lies in hot channels.
func (in *Input) HotFraction() float64 {
	var hot int64
	for _, c := range in.Channels[:in.Hot] {
		hot += c.Count
	}
	return float64(hot) / float64(max(in.Outliers, 1))
}

// HasColumns reports whether the file has the columns of the input's matrices.
func (in *Input) HasColumns() bool { return len(in.Matrices) > 0 && in.Matrices[0].ColumnsAt != 0 }

// ColumnBytes returns what a column takes in the file, with its sum.
func (m *Matrix) ColumnBytes() int64 {
	t, _ := quant.ParseType(m.Type) // check has seen it
	return (int64(m.Rows)*int64(t.BlockBytes())+7)/8*8 + checksumBytes
}

const checksumBytes = 8

const checksumSeed = 0x3861387763616c69

func checksum(p []byte) uint64 { return store.Sum64(checksumSeed, p) }

// assignOffsets gives the columns of all matrices that have any their offsets, behind an
// index of so many bytes, and returns where the file ends.
func (x *Index) assignOffsets(indexBytes int) int64 {
	end := int64(headerBytes+indexBytes+pageBytes-1) / pageBytes * pageBytes
	for i := range x.Inputs {
		in := &x.Inputs[i]
		for j := range in.Matrices {
			if m := &in.Matrices[j]; m.ColumnsAt != 0 {
				m.ColumnsAt = end
				end += int64(in.Cols) * m.ColumnBytes()
			}
		}
	}
	return end
}

// encode returns the header and the index, once offsets are known.
func (x *Index) encode() (head []byte, end int64, err error) {
	// Offsets depend on the length of the index, and it on the digits of offsets: it
	// is made longer until it suffices.
	size := 0
	for {
		end = x.assignOffsets(size)
		index, err := json.Marshal(x)
		if err != nil {
			return nil, 0, err
		}
		if len(index) <= size {
			padded := make([]byte, size)
			for i := copy(padded, index); i < size; i++ {
				padded[i] = ' '
			}
			return append(header(padded, end), padded...), end, nil
		}
		size = len(index)
	}
}

func header(index []byte, fileBytes int64) []byte {
	h := append(make([]byte, 0, headerBytes), magic...)
	h = binary.LittleEndian.AppendUint32(h, Version)
	h = binary.LittleEndian.AppendUint32(h, 0)
	h = binary.LittleEndian.AppendUint64(h, uint64(len(index)))
	h = binary.LittleEndian.AppendUint64(h, checksum(index))
	h = binary.LittleEndian.AppendUint64(h, uint64(fileBytes))
	h = binary.LittleEndian.AppendUint64(h, checksum(h))
	return h[:headerBytes]
}

// check returns what is wrong with an index that comes from a file of so many
// bytes: where, and why.
func (x *Index) check(fileBytes int64) (field, reason string) {
	seen := map[string]bool{}
	for i := range x.Inputs {
		if field, reason := x.Inputs[i].check(i, fileBytes, seen); field != "" {
			return field, reason
		}
	}
	return "", ""
}

// check returns what is wrong with the input of a number. seen are the matrices of
// inputs before, and gets its own.
func (in *Input) check(number int, fileBytes int64, seen map[string]bool) (field, reason string) {
	field = fmt.Sprintf("inputs[%d]", number)
	switch {
	case in.Cols < 1 || in.Cols > maxElems:
		return field + ".cols", fmt.Sprintf("is %d", in.Cols)
	case !isUsableScale(in.Scale) || !isUsableScale(in.ClippedScale) || !(in.Max >= 0):
		return field, fmt.Sprintf("has the scales %g and %g and the maximum %g", in.Scale, in.ClippedScale, in.Max)
	case in.Hot < 0 || in.Hot > len(in.Channels) || len(in.Channels) > in.Cols:
		return field + ".hot", fmt.Sprintf("is %d of %d channels", in.Hot, len(in.Channels))
	}
	for _, c := range in.Channels {
		if c.Channel < 0 || c.Channel >= in.Cols {
			return field + ".channels", fmt.Sprintf("has channel %d of %d", c.Channel, in.Cols)
		}
	}
	for j := range in.Matrices {
		m := &in.Matrices[j]
		field := fmt.Sprintf("%s.matrices[%d]", field, j)
		t, ok := quant.ParseType(m.Type)
		switch {
		case !ok || !t.IsFloat():
			return field + ".type", fmt.Sprintf("is %q, not F32, F16 or BF16", m.Type)
		case m.Rows < 1 || m.Rows > maxElems:
			return field + ".rows", fmt.Sprintf("is %d", m.Rows)
		case m.ColumnsAt != 0 && (m.ColumnsAt < headerBytes || m.ColumnsAt > fileBytes-int64(in.Cols)*m.ColumnBytes()):
			return field + ".at", fmt.Sprintf("is %d: %d columns do not fit into the file", m.ColumnsAt, in.Cols)
		case seen[m.Name]:
			return field + ".name", fmt.Sprintf("is %q for the second time", m.Name)
		}
		seen[m.Name] = true
	}
	return "", ""
}

// isUsableScale reports whether a scale can be divided by.
func isUsableScale(scale float32) bool { return scale > 0x1p-100 && scale < math.MaxFloat32/256 }
