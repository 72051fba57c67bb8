package w8a8

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/vfs"
)

// Write writes a calibration atomically. It stores the columns of each matrix whose
// ColumnsAt is not 0, and sets ColumnsAt to their offset. It calls fill for the columns:
// fill writes count columns, beginning with column first, contiguously to dst.
func Write(fsys vfs.FS, path string, x *Index, fill func(in *Input, m *Matrix, first, count int, dst []float32 /* [count, rows] */) error) error {
	head, end, err := x.encode()
	if err != nil {
		return err
	}
	if field, reason := x.check(end); field != "" {
		return fmt.Errorf("writing %s: %s: %s", path, field, reason)
	}
	return vfs.WriteAtomic(fsys, path, func(w io.Writer) error {
		if _, err := w.Write(head); err != nil {
			return err
		}
		if _, err := w.Write(make([]byte, (pageBytes-len(head)%pageBytes)%pageBytes)); err != nil {
			return err
		}
		for i := range x.Inputs {
			in := &x.Inputs[i]
			for j := range in.Matrices {
				if m := &in.Matrices[j]; m.ColumnsAt != 0 {
					if err := writeColumns(w, in, m, fill); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
}

// columnBatchBytes limits the memory for the columns of one call of fill. The more columns
// per call, the less often the caller reads the matrix.
const columnBatchBytes = 16 << 20

// writeColumns writes the columns of a matrix in batches of about columnBatchBytes.
func writeColumns(w io.Writer, in *Input, m *Matrix, fill func(in *Input, m *Matrix, first, count int, dst []float32) error) error {
	t, _ := quant.ParseType(m.Type) // check has validated the type
	batch := min(in.Cols, max(1, columnBatchBytes/4/m.Rows))
	floats := make([]float32, batch*m.Rows)
	column := make([]byte, m.ColumnBytes())
	for first := 0; first < in.Cols; first += batch {
		n := min(batch, in.Cols-first)
		if err := fill(in, m, first, n, floats[:n*m.Rows]); err != nil {
			return err
		}
		for c := range n {
			encode(column, t, floats[c*m.Rows:(c+1)*m.Rows])
			if _, err := w.Write(column); err != nil {
				return err
			}
		}
	}
	return nil
}

// encode writes a column and its checksum to dst.
func encode(dst []byte, t quant.Type, x []float32 /* [rows] */) {
	for i, v := range x {
		switch t {
		case quant.F32:
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
		case quant.F16:
			binary.LittleEndian.PutUint16(dst[2*i:], quant.F32ToF16(v))
		case quant.BF16:
			binary.LittleEndian.PutUint16(dst[2*i:], quant.F32ToBF16(v))
		}
	}
	data := dst[:len(dst)-checksumBytes]
	binary.LittleEndian.PutUint64(dst[len(data):], checksum(data))
}
