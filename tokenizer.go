package llmrun

import (
	"fmt"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/text/token"
)

// Tokenizer converts text to token ids and back. Its methods are safe for concurrent use.
type Tokenizer struct{ t *token.Tokenizer }

// EncodeOptions configure Encode.
type EncodeOptions struct {
	Special      bool // add the model's begin-of-text and end-of-text tokens
	ParseSpecial bool // encode special tokens that the text spells as special tokens
}

// OpenTokenizer opens the tokenizer of a model without its weights. path is a GGUF file,
// which may contain only a vocabulary, a model directory, or a tokenizer.json.
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

// Encode returns the token ids of a text. It refuses to encode with a tokenizer whose stages
// make a text far longer than any real tokenizer does.
func (t *Tokenizer) Encode(text string, o EncodeOptions) ([]int32, error) {
	return t.t.Encode(text, token.EncodeOptions{AllowSpecial: o.ParseSpecial, AddSpecial: o.Special})
}

// Decode returns the text of ids, including special tokens, with U+FFFD for invalid UTF-8. It
// returns ErrToken for an id outside the vocabulary.
func (t *Tokenizer) Decode(ids []int32) (string, error) {
	text, err := t.t.Decode(ids)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrToken, err)
	}
	return text, nil
}

// TokenDecoder converts the tokens of an answer to text, one by one. A tokenizer makes it with NewDecoder. It is not safe for concurrent use.
type TokenDecoder struct{ d *token.Decoder }

// NewDecoder returns a decoder for an answer. Its texts have whole characters, and, in contrast to those of Decode, the
// spaces with which they begin. Those of a nil tokenizer, which an engine without one has, are empty.
func (t *Tokenizer) NewDecoder() *TokenDecoder {
	if t == nil {
		return &TokenDecoder{}
	}
	return &TokenDecoder{t.t.NewDecoder()}
}

// Next returns the text that a token completes, which is empty within a character. It returns ErrToken for an id outside the vocabulary.
func (d *TokenDecoder) Next(id int32) (string, error) {
	if d.d == nil {
		return "", nil
	}
	text, err := d.d.Next(id)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrToken, err)
	}
	return text, nil
}

// Flush returns what is left of an incomplete character, as U+FFFD.
func (d *TokenDecoder) Flush() string {
	if d.d == nil {
		return ""
	}
	return d.d.Flush()
}

// Piece returns a token as the vocabulary spells it, such as "Ġworld" or "▁world". ok is
// false for an id outside the vocabulary.
func (t *Tokenizer) Piece(id int32) (piece string, ok bool) { return t.t.Piece(id) }

// Bytes returns the bytes that decoding adds for a token, which may end within a character, or nil for an
// id outside the vocabulary.
func (t *Tokenizer) Bytes(id int32) []byte { return t.t.TokenBytes(id) }

// VocabSize returns the number of token ids. A model may have more ids than its tokenizer;
// those are padding.
func (t *Tokenizer) VocabSize() int { return t.t.VocabSize() }

// Kind returns the tokenizer's algorithm: "BPE", "SPM" or "Unigram".
func (t *Tokenizer) Kind() string { return t.t.Family() }
