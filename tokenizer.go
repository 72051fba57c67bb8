package llmrun

import (
	"fmt"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/text/token"
)

// Tokenizer turns text into token ids and back. It may be used by many
// goroutines at once.
type Tokenizer struct{ t *token.Tokenizer }

// EncodeOptions are the choices for one encoding.
type EncodeOptions struct {
	Special      bool // add the tokens that the model wants at the ends of a text
	ParseSpecial bool // special tokens that the text spells stand for themselves
}

// OpenTokenizer opens the tokenizer of a model without its weights: of a GGUF
// file, which may hold a vocabulary alone, a model directory, or a
// tokenizer.json.
func OpenTokenizer(path string, opts Options) (*Tokenizer, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	t, err := modelfile.OpenTokenizer(opts.fsys(), path)
	if err != nil {
		return nil, err
	}
	return &Tokenizer{t}, nil
}

// Encode returns the ids of a text.
func (t *Tokenizer) Encode(text string, o EncodeOptions) []int32 {
	return t.t.Encode(text, token.EncodeOptions{AllowSpecial: o.ParseSpecial, AddSpecial: o.Special})
}

// Decode returns the text of ids, special tokens included, with U+FFFD for what
// is no character. An id outside the vocabulary is ErrToken.
func (t *Tokenizer) Decode(ids []int32) (string, error) {
	text, err := t.t.Decode(ids)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrToken, err)
	}
	return text, nil
}

// Piece returns a token as the vocabulary spells it, such as "Ġworld" or
// "▁world"; ok is false for an id outside the vocabulary.
func (t *Tokenizer) Piece(id int32) (piece string, ok bool) { return t.t.Piece(id) }

// VocabSize returns the number of ids. A model may have more of them: they are
// padding, which stands for no text.
func (t *Tokenizer) VocabSize() int { return t.t.VocabSize() }

// Kind names the tokenizer's algorithm: "BPE", "SPM" or "Unigram".
func (t *Tokenizer) Kind() string { return t.t.Family() }
