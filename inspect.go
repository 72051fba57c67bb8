package llmrun

import (
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/quant"
)

// Inspection is a model whose files are open and whose weights are not in
// memory.
type Inspection struct {
	files *exec.Files
	info  Info
}

// TensorInfo describes one tensor.
type TensorInfo struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape []int  `json:"shape"` // outermost first; the last is the length of a row
	Bytes int64  `json:"bytes"`
}

// Inspect opens a model to look at it.
func Inspect(path string, opts Options) (_ *Inspection, err error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	f, err := exec.Open(opts.fsys(), path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	spec, err := f.Spec()
	if err != nil {
		return nil, err
	}
	var tok *Tokenizer
	t, err := f.Tokenizer()
	if err != nil && !errors.Is(err, exec.ErrNoTokenizer) {
		return nil, err
	}
	if t != nil {
		tok = &Tokenizer{t}
	}
	template, err := f.ChatTemplate()
	if err != nil {
		return nil, err
	}
	return &Inspection{f, describe(f, spec, tok, template)}, nil
}

// Info describes the model.
func (i *Inspection) Info() Info { return i.info }

// Tensors lists the tensors in the order of the files.
func (i *Inspection) Tensors() []TensorInfo {
	var out []TensorInfo
	for _, t := range i.files.Source.Tensors() {
		out = append(out, TensorInfo{t.Name, t.Type.String(), t.Shape, t.Size})
	}
	return out
}

// Rows returns rows of a tensor as the numbers that they stand for.
func (i *Inspection) Rows(name string, rows []int) ([][]float32, error) {
	t, ok := i.files.Source.Tensor(name)
	if !ok {
		return nil, fmt.Errorf("%s has no tensor %q", i.info.Path, name)
	}
	rowBytes := t.Size / int64(max(t.Rows(), 1))
	out := make([][]float32, len(rows))
	raw := make([]byte, rowBytes)
	for j, row := range rows {
		if row < 0 || row >= t.Rows() {
			return nil, fmt.Errorf("tensor %s has rows 0 to %d, not %d", name, t.Rows()-1, row)
		}
		if _, err := i.files.Source.ReadAt(t, raw, int64(row)*rowBytes); err != nil {
			return nil, err
		}
		out[j] = make([]float32, t.Cols())
		quant.DequantRow(t.Type, out[j], raw)
	}
	return out, nil
}

// KVBytes returns the memory that the keys and values of that many tokens take.
func (i *Inspection) KVBytes(tokens int) int64 { return int64(tokens) * i.info.KVBytesPerToken }

// Close closes the files.
func (i *Inspection) Close() error { return i.files.Close() }
