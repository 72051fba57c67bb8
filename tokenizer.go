package llmrun

import (
	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/token"
)

// Tokenizer turns text into token ids and back. It may be used by many
// goroutines at once.
type Tokenizer struct{ t *token.Tokenizer }

// EncodeOptions are the choices for one encoding.
type EncodeOptions struct {
	Special      bool // add the tokens that the model wants at the ends of a text
	ParseSpecial bool // spelled special tokens stand for themselves
}

// OpenTokenizer opens the tokenizer of a model without its weights: of a GGUF
// file, which may hold a vocabulary alone, a model directory, or a
// tokenizer.json.
func OpenTokenizer(path string, opts Options) (*Tokenizer, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	t, err := exec.OpenTokenizer(opts.fsys(), path)
	if err != nil {
		return nil, err
	}
	return &Tokenizer{t}, nil
}

// Encode returns the ids of a text.
func (t *Tokenizer) Encode(text string, o EncodeOptions) []int32 {
	return t.t.Encode(text, token.EncodeOptions{AllowSpecial: o.ParseSpecial, AddSpecial: o.Special})
}

// Decode returns the text of ids; an id outside the vocabulary is an error.
func (t *Tokenizer) Decode(ids []int32) (string, error) { return t.t.Decode(ids) }

// Piece returns a token as the vocabulary spells it.
func (t *Tokenizer) Piece(id int32) (string, bool) { return t.t.Piece(id) }

// VocabSize returns the number of ids.
func (t *Tokenizer) VocabSize() int { return t.t.VocabSize() }

// Kind names the tokenizer's algorithm.
func (t *Tokenizer) Kind() string { return t.t.Family() }
