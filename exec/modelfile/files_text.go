package modelfile

import (
	"encoding/json"
	"fmt"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/text/sample"
)

// ChatTemplate returns the template that renders messages as a prompt, or "" if the model
// has none.
func (f *Files) ChatTemplate() (string, error) {
	if f.meta != nil {
		text, _, err := f.meta.String("tokenizer.chat_template")
		return text, err
	}
	// The template file is newer than the JSON field and takes precedence.
	if data, err := f.readOptional("chat_template.jinja"); data != nil || err != nil {
		return string(data), err
	}
	for _, name := range []string{"tokenizer_config.json", "chat_template.json"} {
		data, err := f.readOptional(name)
		if err != nil {
			return "", err
		}
		text, err := templateField(data)
		if err != nil {
			return "", fmt.Errorf("%w: %s: chat_template: %w", arch.ErrModel, vfs.Join(f.dir, name), err)
		}
		if text != "" {
			return text, nil
		}
	}
	return "", nil
}

// templateField returns the chat_template field of a JSON file: a string, or the entry
// "default" of a list of named templates.
func templateField(data []byte) (string, error) {
	if data == nil {
		return "", nil
	}
	var file struct {
		Template json.RawMessage `json:"chat_template"`
	}
	if err := json.Unmarshal(data, &file); err != nil || file.Template == nil {
		return "", err
	}
	var text string
	if json.Unmarshal(file.Template, &text) == nil {
		return text, nil
	}
	var named []struct{ Name, Template string }
	if err := json.Unmarshal(file.Template, &named); err != nil {
		return "", err
	}
	for _, t := range named {
		if t.Name == "default" {
			return t.Template, nil
		}
	}
	return "", nil
}

// generationConfig is the sampling part of generation_config.json.
type generationConfig struct {
	DoSample          *bool    `json:"do_sample"`
	Temperature       *float32 `json:"temperature"`
	TopK              *int     `json:"top_k"`
	TopP              *float32 `json:"top_p"`
	MinP              *float32 `json:"min_p"`
	TypicalP          *float32 `json:"typical_p"`
	RepetitionPenalty *float32 `json:"repetition_penalty"`
}

// Sampling returns the model's sampling defaults. ok is false if the files contain none.
func (f *Files) Sampling() (p sample.Params, ok bool, err error) {
	if f.meta != nil {
		return f.samplingGGUF()
	}
	data, err := f.readOptional("generation_config.json")
	if data == nil || err != nil {
		return p, false, err
	}
	path := vfs.Join(f.dir, "generation_config.json")
	var c generationConfig
	if err := json.Unmarshal(data, &c); err != nil {
		return p, false, fmt.Errorf("%w: %s: %w", arch.ErrModel, path, err)
	}
	if c.DoSample == nil && c.Temperature == nil && c.TopP == nil && c.TopK == nil {
		return p, false, nil
	}
	if c.DoSample != nil && !*c.DoSample {
		return p, true, nil // the model requests greedy sampling
	}
	p.Temperature = 1 // the default of generation_config.json
	set(&p.Temperature, c.Temperature)
	set(&p.TopK, c.TopK)
	set(&p.TopP, c.TopP)
	set(&p.MinP, c.MinP)
	set(&p.TypicalP, c.TypicalP)
	set(&p.RepeatPenalty, c.RepetitionPenalty)
	if err := p.Validate(); err != nil {
		return p, false, fmt.Errorf("%w: %s: %w", arch.ErrModel, path, err)
	}
	return p, true, nil
}

// samplingGGUF reads the keys that newer converters copy from generation_config.json.
func (f *Files) samplingGGUF() (p sample.Params, ok bool, err error) {
	c := &arch.GGUFConfig{Meta: f.meta, Arch: "general.sampling", Path: f.Path}
	for _, key := range []string{"temp", "top_k", "top_p", "min_p"} {
		ok = ok || f.meta.Has(c.Key(key))
	}
	if !ok {
		return p, false, nil
	}
	p.Temperature = float32(c.Float("temp", 1))
	p.TopK = c.Num("top_k", 0)
	p.TopP = float32(c.Float("top_p", 0))
	p.MinP = float32(c.Float("min_p", 0))
	p.RepeatPenalty = float32(c.Float("penalty_repeat", 0))
	if c.Err == nil {
		c.Err = p.Validate()
	}
	if c.Err != nil {
		return p, false, fmt.Errorf("%w: %s: general.sampling: %w", arch.ErrModel, f.Path, c.Err)
	}
	return p, true, nil
}

func set[T any](dst, v *T) {
	if v != nil {
		*dst = *v
	}
}
