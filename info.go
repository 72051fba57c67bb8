package llmrun

import (
	"errors"
	"maps"
	"strings"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/kv"
)

// Info describes a model.
type Info struct {
	Path       string `json:"path"`
	Format     string `json:"format"` // "gguf", "safetensors" or "pack"
	Family     string `json:"family"`
	Name       string `json:"name,omitempty"` // as stated in the model's files
	Parameters int64  `json:"parameters"`
	Layers     int    `json:"layers"`
	Dim        int    `json:"dim"`
	Heads      int    `json:"heads"`
	KVHeads    int    `json:"kv_heads"` // the most of any layer
	HeadDim    int    `json:"head_dim"`
	FFN        int    `json:"ffn"`
	Vocab      int    `json:"vocab"`
	MaxContext int    `json:"max_context"`
	// Context is the most tokens of a session of an open engine: Options.Context, or the one that the plan chose;
	// 0 for a model that is only inspected.
	Context         int            `json:"context,omitempty"`
	Experts         int            `json:"experts,omitempty"`
	ExpertsUsed     int            `json:"experts_used,omitempty"`
	SlidingWindow   int            `json:"sliding_window,omitempty"`
	TensorTypes     map[string]int `json:"tensor_types"` // number of tensors of each type
	WeightBytes     int64          `json:"weight_bytes"`
	KV              string         `json:"kv"` // format of keys and values
	KVBytesPerToken int64          `json:"kv_bytes_per_token"`
	Tokenizer       string         `json:"tokenizer,omitempty"` // "BPE", "SPM" or "Unigram"; "" without one
	HasChatTemplate bool           `json:"has_chat_template"`
}

// clone returns a deep copy.
func (i Info) clone() Info {
	i.TensorTypes = maps.Clone(i.TensorTypes)
	return i
}

// description holds what the files of a model contain besides the weights.
type description struct {
	info     Info
	tok      *Tokenizer // nil without a tokenizer
	chat     *chatFormat
	ends     []int32 // end-of-text tokens
	sampling Sampling
}

// describe reads and checks everything except the weights.
func describe(f *modelfile.Files, kvFormat kv.Format) (d description, err error) {
	spec, err := f.Spec()
	if err != nil {
		return d, err
	}
	t, err := f.Tokenizer()
	if err != nil && !errors.Is(err, modelfile.ErrNoTokenizer) {
		return d, err
	}
	if t != nil {
		d.tok = &Tokenizer{t}
	}
	if d.chat, err = newChatFormat(f, t); err != nil {
		return d, err
	}
	if d.ends, err = f.EndIDs(t); err != nil {
		return d, err
	}
	sampling, said, err := f.Sampling()
	d.sampling = Sampling(sampling)
	if err == nil && !said {
		d.sampling = Sampling{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05}
	}
	d.info = newInfo(f, spec, d.tok, d.chat.source, kvFormat)
	return d, err
}

// newInfo returns the Info of a model.
func newInfo(f *modelfile.Files, spec *arch.Spec, tokenizer *Tokenizer, template string, kvFormat kv.Format) Info {
	info := Info{
		Path: f.Path, Format: f.Format(), Family: spec.Family, Name: f.Name(),
		Layers: len(spec.Layers), Dim: spec.Dim, Heads: spec.Heads, HeadDim: spec.HeadDim, FFN: f.Hyper.FFN,
		Vocab: spec.Vocab, MaxContext: spec.Context, Experts: spec.Experts, ExpertsUsed: spec.ExpertsUsed,
		TensorTypes:     map[string]int{},
		KV:              kvFormat.String(),
		HasChatTemplate: template != "",
	}
	for _, l := range spec.Layers {
		info.KVHeads = max(info.KVHeads, l.KVHeads)
		info.SlidingWindow = max(info.SlidingWindow, l.Window)
	}
	info.KVBytesPerToken = spec.KVShape(kvFormat).TokenBytes()
	for _, t := range f.Source.Tensors() {
		info.TensorTypes[t.Type.String()]++
		info.WeightBytes += t.Size
		if !strings.HasPrefix(t.Name, "rope_") && !modelfile.IsOrder(f.Source, t.Name) { // tables, not parameters
			info.Parameters += elements(t.Shape)
		}
	}
	if tokenizer != nil {
		info.Tokenizer = tokenizer.Kind()
	}
	return info
}

func elements(shape []int) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= int64(d)
	}
	return n
}
