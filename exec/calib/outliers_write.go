package calib

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/store/w8a8"
)

// ColumnType returns the type of a calibration's columns for weights of a type: float types
// are stored unchanged.
func ColumnType(t quant.Type) quant.Type {
	if t.IsFloat() {
		return t
	}
	return quant.F32
}

// CalibrationIdentity identifies the model of a calibration, equally for a pack and its
// source. It covers the origin, the shapes and types of the matrices, and their first rows,
// which adapters and quantization change.
func CalibrationIdentity(ctx context.Context, f *modelfile.Files) (string, error) {
	origin, err := f.Origin(ctx)
	if err != nil {
		return "", err
	}
	return identityFrom(f, origin)
}

// identityFrom is CalibrationIdentity for a given origin of the model.
func identityFrom(f *modelfile.Files, origin [sha256.Size]byte) (string, error) {
	ld, named, err := weights.LayerMatrices(f)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	h.Write(origin[:])
	has := func(name string) bool { return named[name] != nil }
	for _, group := range InputGroups(len(ld.Spec.Layers), has) {
		for _, name := range group {
			s := named[name]
			fmt.Fprintf(h, "%s %s %d %d\n", name, s.Type, s.Rows, s.Cols)
			row := make([]byte, s.Bytes()/int64(s.Rows))
			if err := ld.ReadRows(s, 0, row); err != nil {
				return "", err
			}
			h.Write(row)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// WriteCalibration writes the calibration of a model, with the columns of those inputs for
// which keep is true. progress receives the bytes of columns written.
func WriteCalibration(ctx context.Context, f *modelfile.Files, fsys vfs.FS, path string, index *w8a8.Index, keep func(*w8a8.Input) bool, progress func(done, total int64)) error {
	ld, named, err := weights.LayerMatrices(f)
	if err != nil {
		return err
	}
	var done, total int64
	for i := range index.Inputs {
		in := &index.Inputs[i]
		for j := range in.Matrices {
			m := &in.Matrices[j]
			m.ColumnsAt = 0
			if keep(in) {
				m.ColumnsAt = w8a8.WriteColumns
				total += int64(in.Cols) * m.ColumnBytes()
			}
		}
	}
	return w8a8.Write(fsys, path, index, func(_ *w8a8.Input, m *w8a8.Matrix, first, count int, dst []float32) error {
		if err := ld.ReadColumns(ctx, named[m.Name], first, count, dst); err != nil {
			return err
		}
		if done += int64(count) * m.ColumnBytes(); progress != nil {
			progress(done, total)
		}
		return nil
	})
}
