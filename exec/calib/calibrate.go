package calib

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/store/w8a8"
)

// InputPowers sums the squares of matmul inputs.
type InputPowers struct {
	Sums map[*weights.Linear]*InputPower
}

// InputPower is the sum of squares of each input channel of one matrix.
type InputPower struct {
	Name string
	Sum  []float32 // [cols]
	Rows int
}

// Observe adds the input rows of a matmul.
func (o *InputPowers) Observe(w *weights.Linear, rows int, input func(int) []float32) {
	p := o.Sums[w]
	if p == nil {
		return
	}
	if p.Sum == nil {
		p.Sum = make([]float32, w.Cols)
	}
	for row := range rows {
		for i, v := range input(row) {
			p.Sum[i] += float32(v * v)
		}
	}
	p.Rows += rows
}

// UsePerRowInt8 makes the matrices of a calibration appear in 8 bits with one scale per
// row, the W8A8 weights. It returns an error if the calibration belongs to another model.
func UsePerRowInt8(ctx context.Context, f *modelfile.Files, c *w8a8.File) error {
	if err := checkIdentity(ctx, f, c); err != nil {
		return err
	}
	ld, named, err := weights.LayerMatrices(f)
	if err != nil {
		return err
	}
	if len(ld.Orders) > 0 {
		return fmt.Errorf("%w: W8A8 of a model with permuted columns (%s)", arch.ErrUnsupported, f.Path)
	}
	overlay := &perRowInt8{modelfile.NewOverlay(f.Source), map[string]bool{}}
	for i := range c.Inputs {
		in := &c.Inputs[i]
		for j := range in.Matrices {
			s := named[in.Matrices[j].Name]
			if s == nil || s.Cols != in.Cols || s.Rows != in.Matrices[j].Rows {
				return fmt.Errorf("%w: %s: inputs[%d]: the model has no matrix %s of %d rows and %d columns", arch.ErrModel, c.Path(), i, in.Matrices[j].Name, in.Matrices[j].Rows, in.Cols)
			}
			for _, g := range s.Ranges {
				overlay.quantizeTensor(g.Tensor.Name)
			}
		}
	}
	f.Source = overlay
	return nil
}

// checkIdentity returns an error if the calibration belongs to another model.
func checkIdentity(ctx context.Context, f *modelfile.Files, c *w8a8.File) error {
	for _, origin := range []func() ([sha256.Size]byte, error){
		func() ([sha256.Size]byte, error) { return f.Origin(ctx) },
		f.SampledOrigin(), // of calibrations that older programs wrote
	} {
		id, err := origin()
		if err != nil {
			return err
		}
		identity, err := identityFrom(f, id)
		if err != nil || identity == c.Model {
			return err
		}
	}
	return &store.FormatError{
		Path: c.Path(), Off: store.NoOffset, Field: "model", Reason: "the calibration belongs to another model or to other weights of this one",
		Hint: "run llmrun calibrate for this model", Kind: arch.ErrModel,
	}
}

// perRowInt8 is a model in which some matrices have 8 bits and one scale per row.
type perRowInt8 struct {
	modelfile.Overlay
	changed map[string]bool // tensors by name
}

// quantizeTensor makes a tensor appear quantized, if the type supports its row length.
func (w *perRowInt8) quantizeTensor(name string) {
	t := &w.Visible[w.Index[name]]
	rowBytes, err := quant.Q8_0.RowBytes(t.Cols())
	if err == nil {
		t.Type, t.Size = quant.Q8_0, int64(t.Rows())*int64(rowBytes)
		w.changed[name] = true
	}
}

// ReadAt reads a tensor and computes the rows of a changed one.
func (w *perRowInt8) ReadAt(t store.Tensor, p []byte, off int64) (int, error) {
	base, ok := w.Source.Tensor(t.Name)
	if !ok || !w.changed[t.Name] {
		return w.Source.ReadAt(t, p, off)
	}
	return modelfile.ReadComputed(w.Source, base, t, p, off, func(out []byte, row []float32, _ int) error {
		return quant.QuantizeRowPerRow(out, row)
	})
}

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
