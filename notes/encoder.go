package notes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/notes/index"
)

// EncoderOptions say how an encoder reads questions and passages. The zero value is what the model's own files say.
type EncoderOptions struct {
	// Dimensions is the length of the vectors, as in [llmrun.EmbedOptions].
	Dimensions int `json:"dimensions,omitempty"`
	// Pooling is that of [llmrun.EmbedOptions].
	Pooling string `json:"pooling,omitempty"`
	// QueryPrefix and PassagePrefix are put before questions and passages; nil is what the model's files name.
	QueryPrefix   *string `json:"query_prefix,omitempty"`
	PassagePrefix *string `json:"passage_prefix,omitempty"`
}

// Encoder is an [Embedder] by an engine.
type Encoder struct {
	engine          *llmrun.Engine
	options         EncoderOptions
	query, passages llmrun.EmbedOptions
	identity        string
}

// NewEncoder returns the encoder of an open engine, which the caller closes behind the vault.
func NewEncoder(ctx context.Context, engine *llmrun.Engine, o EncoderOptions) (*Encoder, error) {
	e := &Encoder{engine: engine, options: o}
	e.query = llmrun.EmbedOptions{Kind: llmrun.EmbedQuery, Prefix: o.QueryPrefix, Dimensions: o.Dimensions, Pooling: o.Pooling}
	e.passages = llmrun.EmbedOptions{Kind: llmrun.EmbedDocument, Prefix: o.PassagePrefix, Dimensions: o.Dimensions, Pooling: o.Pooling}
	if o.Pooling == "none" {
		return nil, fmt.Errorf("%w: Pooling is none, and a passage needs one vector", llmrun.ErrOptions)
	}
	var err error
	e.identity, err = engine.EmbedIdentity(ctx, e.passages)
	return e, err
}

// Embed returns a vector for each text.
func (e *Encoder) Embed(ctx context.Context, texts []string, query bool) ([][]float32, error) {
	if query {
		return e.engine.Embed(ctx, texts, e.query)
	}
	return e.engine.Embed(ctx, texts, e.passages)
}

// Identity names the model's content and the options that vectors of passages follow from. The prefix of questions is no part of
// it: with another one, the same passages are searched.
func (e *Encoder) Identity() string { return e.identity }

// Remembered is the encoder that an index remembers.
type Remembered struct {
	Name     string // as [Options].EmbedderName had it
	Identity string
	Options  EncoderOptions
}

// ErrOtherEncoder reports that an index has the vectors of another encoder.
var ErrOtherEncoder = errors.New("the index has vectors of another encoder")

// RememberedEncoder returns the encoder whose vectors are in the file of an index; all of it is empty if there is none.
func RememberedEncoder(file string) (Remembered, error) {
	e, err := index.EncoderIn(file)
	r := Remembered{Name: e.Name, Identity: e.Identity}
	if err == nil && e.Settings != "" {
		if err = json.Unmarshal([]byte(e.Settings), &r.Options); err != nil {
			err = fmt.Errorf("%s: the settings of the encoder: %w; delete the file, and the notes are indexed anew", file, err)
		}
	}
	return r, err
}

// encoder returns what the index is to remember.
func (v *Vault) encoder() (index.Encoder, error) {
	e := index.Encoder{Identity: v.identity(), Name: v.options.EmbedderName}
	if own, is := v.options.Embedder.(*Encoder); is {
		settings, err := json.Marshal(own.options)
		if err != nil {
			return e, err
		}
		e.Settings = string(settings)
	}
	return e, nil
}

// checkEncoder refuses an encoder other than the one that the index remembers, unless all vectors shall be computed again.
func (v *Vault) checkEncoder(x *index.Index) error {
	was := x.Encoder()
	if v.options.Embedder == nil || v.options.Reembed || was.Identity == "" || was.Identity == v.identity() {
		return nil
	}
	return fmt.Errorf("%s: %w, %q, or of that one with other files or options", v.options.File, ErrOtherEncoder, was.Name)
}

// Forget makes the index forget its encoder, so that notes are found by their words alone. Its vectors leave the file when the
// file is rewritten.
func (v *Vault) Forget() error {
	v.updating.Lock()
	defer v.updating.Unlock()
	x, err := v.open()
	if err != nil {
		return err
	}
	w, err := x.Begin()
	if err != nil {
		return err
	}
	return errors.Join(w.PutEncoder(index.Encoder{}), w.Close())
}
