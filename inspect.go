package llmrun

import (
	"errors"
	"fmt"
	"slices"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
)

// Inspection is a model with open files whose weights are not loaded. Its methods are safe
// for concurrent use.
type Inspection struct {
	files     *modelfile.Files
	natural   store.Source // the tensors, with the elements of each row in natural order
	described description
}

// TensorInfo describes one tensor.
type TensorInfo struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape []int  `json:"shape"` // outermost dimension first; the last is the length of a row
	Bytes int64  `json:"bytes"`
}

// Inspect opens a model without loading its weights.
func Inspect(path string, opts Options) (_ *Inspection, err error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	f, err := modelfile.Open(opts.fsys(), path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	d, err := describe(f, opts.kvFormat(f))
	if err != nil {
		return nil, err
	}
	natural, err := f.InInputOrder()
	if err != nil {
		return nil, err
	}
	return &Inspection{f, natural, d}, nil
}

// Info describes the model.
func (i *Inspection) Info() Info { return i.described.info.clone() }

// ChatTemplate returns the source of the model's own chat template, or "" if it has none.
func (i *Inspection) ChatTemplate() string { return i.described.chat.source }

// DefaultSampling returns the sampling parameters that the model's authors suggest, as [Engine.DefaultSampling] does.
func (i *Inspection) DefaultSampling() Sampling { return i.described.sampling }

// Describes reports whether the model is meant to describe texts (Embed, Rank): it generates none, or its files say how the
// states of tokens become a vector or a score.
func (i *Inspection) Describes() bool { return i.files.Describes() }

// HasTools reports whether a conversation with the model can have tools; see [Engine.HasTools].
func (i *Inspection) HasTools() bool { return i.described.chat.hasTools() }

// ThinkingLevels returns the levels of thinking between which the chat template can choose; see [Engine.ThinkingLevels].
func (i *Inspection) ThinkingLevels() []string { return i.described.chat.levelNames() }

// Tensors lists the tensors in the order of the files.
func (i *Inspection) Tensors() []TensorInfo {
	var out []TensorInfo
	for _, t := range i.files.Source.Tensors() {
		out = append(out, TensorInfo{t.Name, t.Type.String(), slices.Clone(t.Shape), t.Size})
	}
	return out
}

// Rows returns rows of a tensor as float32. For a tensor with more than two dimensions, it
// counts the rows of all outer dimensions together.
func (i *Inspection) Rows(name string, rows []int) ([][]float32, error) {
	t, ok := i.natural.Tensor(name)
	if !ok {
		return nil, fmt.Errorf("%w: %s has no tensor %q", ErrOptions, i.described.info.Path, name)
	}
	rowBytes := t.Size / int64(max(t.Rows(), 1))
	out := make([][]float32, len(rows))
	raw := make([]byte, rowBytes)
	for j, row := range rows {
		if row < 0 || row >= t.Rows() {
			return nil, fmt.Errorf("%w: tensor %q has no row %d; it has rows 0 to %d", ErrOptions, name, row, t.Rows()-1)
		}
		if _, err := i.natural.ReadAt(t, raw, int64(row)*rowBytes); err != nil {
			return nil, err
		}
		out[j] = make([]float32, t.Cols())
		quant.DequantRow(t.Type, out[j], raw)
	}
	return out, nil
}

// KVBytes returns the memory of the keys and values of that many tokens.
func (i *Inspection) KVBytes(tokens int) int64 {
	return int64(tokens) * i.described.info.KVBytesPerToken
}

// Close closes the files.
func (i *Inspection) Close() error { return i.files.Close() }
