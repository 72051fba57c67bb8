package calib

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/w8a8"
)

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
