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
	// Version is the version of the format, see FORMAT.md.
	Version = 1
	// Suffix is appended to the name of a model to name its calibration.
	Suffix = ".w8a8"

	magic            = "LLMRW8A8"
	headerBytes      = 64
	checksummedBytes = 40 // of the header; its checksum follows
	pageBytes        = 4096
	// maxIndexBytes limits the index. A channel takes 30 bytes, and an input has a few
	// thousand channels.
	maxIndexBytes = 64 << 20
	// maxInputBytes limits the JSON of one input: empty channels and matrices take many
	// times more memory than text.
	maxInputBytes = 4 << 20
	// maxElems limits the rows and columns of a matrix, so that their product with a few
	// bytes cannot overflow.
	maxElems = 1 << 26
)

// Index is the content of a calibration except for the columns.
type Index struct {
	Model           string  `json:"model"`         // hash of the model, see FORMAT.md
	CreatedBy       string  `json:"made"`          // program and version that wrote the file
	Tokens          int     `json:"tokens"`        // length of the calibration text
	OutlierFraction float64 `json:"outlier_share"` // allowed fraction of outliers; 0 if chosen per input
	Inputs          []Input `json:"inputs"`
}

// Input describes the input of one or more matrices. FORMAT.md explains the fields.
type Input struct {
	Name              string    `json:"name"`     // name of the first matrix that reads the input
	Cols              int       `json:"cols"`     // elements of the input
	Scale             float32   `json:"scale"`    // element x is quantized to round(x/Scale)
	ClippedScale      float32   `json:"alone"`    // best scale if outliers are dropped
	ClippedErrorRatio float32   `json:"loss"`     // RMS error of ClippedScale relative to Scale with the outlier path
	Max               float32   `json:"max"`      // largest magnitude in the calibration text
	Elements          int64     `json:"elements"` // all elements in the calibration text
	Outliers          int64     `json:"outliers"` // those that exceed the range of Scale
	Channels          []Channel `json:"channels"` // channels with outliers, most outliers first
	Hot               int       `json:"hot"`      // length of the prefix of Channels whose columns stay in memory
	Matrices          []Matrix  `json:"matrices"` // the matrices that read the input
}

// Channel is an element of an input that exceeded the scale.
type Channel struct {
	Channel int   `json:"channel"`
	Count   int64 `json:"count"`
}

// WriteColumns is the value of Matrix.ColumnsAt that makes Write store the columns of the
// matrix.
const WriteColumns = -1

// Matrix locates the columns of a matrix in the file.
type Matrix struct {
	Name      string `json:"name"`
	Rows      int    `json:"rows"`
	Type      string `json:"type"` // number format of the columns
	ColumnsAt int64  `json:"at"`   // offset of the first column in the file, 0 if there is none
}

// Importance returns how far outliers exceed the range of the scale. It is 1 for an input
// without outliers.
func (in *Input) Importance() float64 { return float64(in.Max) / (127 * float64(in.Scale)) }

// HotFraction returns the fraction of the outliers that are in hot channels.
func (in *Input) HotFraction() float64 {
	var hot int64
	for _, c := range in.Channels[:in.Hot] {
		hot += c.Count
	}
	return float64(hot) / float64(max(in.Outliers, 1))
}

// HasColumns reports whether the file stores the columns of the input's matrices.
func (in *Input) HasColumns() bool { return len(in.Matrices) > 0 && in.Matrices[0].ColumnsAt != 0 }

// ColumnBytes returns the size of a column in the file, with its checksum.
func (m *Matrix) ColumnBytes() int64 {
	t, _ := quant.ParseType(m.Type) // check has validated the type
	return (int64(m.Rows)*int64(t.BlockBytes())+7)/8*8 + checksumBytes
}

const checksumBytes = 8

const checksumSeed = 0x3861387763616c69

func checksum(p []byte) uint64 { return store.Sum64(checksumSeed, p) }

// assignOffsets sets the offsets of all stored columns, which follow an index of indexBytes,
// and returns the length of the file.
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

// encode returns the header and the index with the final offsets.
func (x *Index) encode() (head []byte, end int64, err error) {
	// The offsets depend on the length of the index, and the length depends on the digits
	// of the offsets: encode extends the index until it fits.
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

// header returns the header of a file of fileBytes with the given index.
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

// check validates an index of a file of fileBytes. It returns the faulty field and the
// reason, or "".
func (x *Index) check(fileBytes int64) (field, reason string) {
	seen := map[string]bool{}
	for i := range x.Inputs {
		if field, reason := x.Inputs[i].check(i, fileBytes, seen); field != "" {
			return field, reason
		}
	}
	return "", ""
}

// check validates the input with the given number. seen holds the matrix names of earlier
// inputs; check adds its own.
func (in *Input) check(number int, fileBytes int64, seen map[string]bool) (field, reason string) {
	field = fmt.Sprintf("inputs[%d]", number)
	switch {
	case in.Cols < 1 || in.Cols > maxElems:
		return field + ".cols", fmt.Sprintf("%d is out of range", in.Cols)
	case !isUsableScale(in.Scale) || !isUsableScale(in.ClippedScale) || !(in.Max >= 0):
		return field, fmt.Sprintf("the scales %g and %g or the maximum %g are out of range", in.Scale, in.ClippedScale, in.Max)
	case in.Hot < 0 || in.Hot > len(in.Channels) || len(in.Channels) > in.Cols:
		return field + ".hot", fmt.Sprintf("%d of %d channels is out of range for %d columns", in.Hot, len(in.Channels), in.Cols)
	}
	for _, c := range in.Channels {
		if c.Channel < 0 || c.Channel >= in.Cols {
			return field + ".channels", fmt.Sprintf("channel %d is out of range for %d columns", c.Channel, in.Cols)
		}
	}
	for j := range in.Matrices {
		m := &in.Matrices[j]
		field := fmt.Sprintf("%s.matrices[%d]", field, j)
		t, ok := quant.ParseType(m.Type)
		switch {
		case !ok || !t.IsFloat():
			return field + ".type", fmt.Sprintf("%q is not F32, F16 or BF16", m.Type)
		case m.Rows < 1 || m.Rows > maxElems:
			return field + ".rows", fmt.Sprintf("%d is out of range", m.Rows)
		case m.ColumnsAt != 0 && (m.ColumnsAt < headerBytes || m.ColumnsAt > fileBytes-int64(in.Cols)*m.ColumnBytes()):
			return field + ".at", fmt.Sprintf("%d columns at offset %d exceed the file", in.Cols, m.ColumnsAt)
		case seen[m.Name]:
			return field + ".name", fmt.Sprintf("%q occurs twice", m.Name)
		}
		seen[m.Name] = true
	}
	return "", ""
}

// isUsableScale reports whether a scale can be a divisor without overflow.
func isUsableScale(scale float32) bool { return scale > 0x1p-100 && scale < math.MaxFloat32/256 }
