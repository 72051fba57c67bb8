package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// GroupsOptions configure WriteGroups.
type GroupsOptions struct {
	Path string // directory of a safetensors model
	Out  string // directory for the changed model
	Rows int    // of a group; Rows times its columns is groupElements
	// Running is called after each matrix. It may be nil.
	Running func(done, total int64)
}

// groupElements is the number of weights with one scale.
const groupElements = 32

// GroupsReport is what the rounding of weights to 4 bits, in groups of some rows and columns, changes.
type GroupsReport struct {
	Rows     int   `json:"rows"`
	Cols     int   `json:"cols"`
	Matrices int   `json:"matrices"`
	Weights  int64 `json:"weights"`
	// RelativeError is the root of the mean square of the changes, divided by that of the weights.
	RelativeError float64 `json:"relative_error"`
}

// WriteGroups writes a model whose matrices of layers are rounded to Q4_0 with one scale for each group of neighbouring rows and
// columns, as floats: its perplexity is that of a model with these groups. One row is what Q4_0 is; several rows are groups along the
// tile of a matrix unit.
func WriteGroups(ctx context.Context, o GroupsOptions) (_ *GroupsReport, err error) {
	if o.Rows < 1 || groupElements%o.Rows != 0 {
		return nil, fmt.Errorf("groups have %d weights: %d rows do not divide them", groupElements, o.Rows)
	}
	r := &GroupsReport{Rows: o.Rows, Cols: groupElements / o.Rows}
	src, err := safetensors.Open(vfs.OS(), o.Path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	all := src.Tensors()
	var out []safetensors.TensorData
	changes, squares := 0.0, 0.0
	for i, t := range all {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		data, err := r.round(src, t, &changes, &squares)
		if err != nil {
			return nil, err
		}
		out = append(out, data)
		if o.Running != nil {
			o.Running(int64(i)+1, int64(len(all)))
		}
	}
	if r.Matrices == 0 {
		return nil, fmt.Errorf("%s has no matrix of a layer whose sides are multiples of %d and %d", o.Path, r.Rows, r.Cols)
	}
	r.RelativeError = math.Sqrt(changes / squares)
	if err := copyOthers(vfs.OS(), o.Path, o.Out); err != nil {
		return nil, err
	}
	return r, safetensors.Write(vfs.OS(), vfs.Join(o.Out, "model.safetensors"), out)
}

// round returns a tensor, rounded if it is a matrix of a layer.
func (r *GroupsReport) round(src store.Source, t store.Tensor, changes, squares *float64) (safetensors.TensorData, error) {
	out := safetensors.TensorData{Name: t.Name, Type: t.Type, Shape: t.Shape, Data: make([]byte, t.Size)}
	if !strings.Contains(t.Name, "layers.") || len(t.Shape) != 2 || t.Rows()%r.Rows != 0 || t.Cols()%r.Cols != 0 {
		_, err := src.ReadAt(t, out.Data, 0)
		return out, err
	}
	values, err := modelfile.ReadFloats(src, t)
	if err != nil {
		return out, err
	}
	rounded := append([]float32(nil), values...)
	if err := roundGroups(rounded, t.Cols(), r.Rows); err != nil {
		return out, err
	}
	for i, x := range values {
		d := float64(rounded[i] - x)
		*changes, *squares = *changes+d*d, *squares+float64(x)*float64(x)
	}
	r.Matrices, r.Weights = r.Matrices+1, r.Weights+int64(len(values))
	out.Type, out.Data = quant.F32, modelfile.AppendFloats(nil, rounded)
	return out, nil
}

// roundGroups rounds a matrix to Q4_0 in groups of some rows.
func roundGroups(matrix []float32 /* [rows, cols] */, cols, rows int) error {
	var group [groupElements]float32
	block := make([]byte, quant.Q4_0.BlockBytes())
	width := groupElements / rows
	for first := 0; first < len(matrix); first += rows * cols {
		for c := 0; c < cols; c += width {
			at := func(i int) *float32 { return &matrix[first+i/width*cols+c+i%width] }
			for i := range group {
				group[i] = *at(i)
			}
			if err := quant.QuantizeRow(quant.Q4_0, block, group[:], nil); err != nil {
				return err
			}
			quant.DequantRow(quant.Q4_0, group[:], block)
			for i, x := range group {
				*at(i) = x
			}
		}
	}
	return nil
}

// copyOthers copies the files of a directory that hold no tensors.
func copyOthers(fsys vfs.FS, from, to string) error {
	files, err := fsys.ReadDir(from)
	if err != nil {
		return err
	}
	if err := fsys.MkdirAll(to); err != nil {
		return err
	}
	for _, f := range files {
		if f.IsDir || strings.Contains(f.Name, ".safetensors") {
			continue
		}
		if err := copySideFile(fsys, from, fsys, to, f.Name); err != nil {
			return err
		}
	}
	return nil
}

// WriteTable writes the report as a line.
func (r *GroupsReport) WriteTable(w io.Writer) {
	fmt.Fprintf(w, "groups of %d × %d: %d matrices, %d weights, relative error %.5f\n", r.Rows, r.Cols, r.Matrices, r.Weights, r.RelativeError)
}
