package token

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/llmrun/llmrun/store"
)

// Tokenizer converts text to token ids and token ids to text. A Tokenizer is immutable
// after construction and safe for concurrent use.
type Tokenizer struct {
	path            string // of the file, for errors; may be ""
	family          string // "BPE", "SPM", "Unigram" or "WordPiece"
	vocab           *vocabulary
	addedRaw        *addedSet // added tokens matched in the raw text
	norm            normalizer
	addedNormalized *addedSet // added tokens matched in the normalized text
	preTokenizer    chain
	model           model
	decoding        decodeRules
	prefix          []int32 // ids that AddSpecial puts before the text
	suffix          []int32 // ids that AddSpecial puts after the text
	pair            pairRule
	bos             int32   // -1 if the vocabulary has none
	eos             int32   // end of text, -1 if the vocabulary has none
	eosTokens       []int32 // ids that end a generation, ascending
	pool            sync.Pool
}

// EncodeOptions configures the encoding of one text. The zero value is safe for text
// from an untrusted source.
type EncodeOptions struct {
	// AllowSpecial encodes the spelling of a special token as that token, as a rendered
	// chat template requires. Without it, "<|im_end|>" in a text encodes as ten
	// characters of plain text.
	AllowSpecial bool
	// Plain are ranges of the text, ascending, in which no special token matches, also with AllowSpecial: what a user
	// wrote in a rendered conversation.
	Plain []Span
	// AddSpecial adds the tokens that the model expects around a text, usually a
	// begin-of-sequence token.
	AddSpecial bool
	// OpenEnd leaves out an end token that AddSpecial would add behind the text, because the text goes on.
	OpenEnd bool
	// Granted is the memory in bytes that the caller has reserved for the encoding. Encode
	// calls Reserve for more before it takes more; an error of Reserve ends the encoding.
	// Without Reserve only maxTextGrowth limits the memory.
	Granted int64
	Reserve func(bytes int64) error
}

// Encode returns the token ids of text. It returns a *store.FormatError if the tokenizer's
// stages make text that is far longer than any real tokenizer makes it.
func (t *Tokenizer) Encode(text string, o EncodeOptions) ([]int32, error) {
	return t.AppendEncode(nil, text, o)
}

// AppendEncode appends the token ids of text to dst and returns the extended slice.
func (t *Tokenizer) AppendEncode(dst []int32, text string, o EncodeOptions) ([]int32, error) {
	work, _ := t.pool.Get().(*scratch)
	if work == nil {
		work = new(scratch)
	}
	defer t.pool.Put(work)
	m := newMeter(len(text), maxTextGrowth, o)
	ids := idBlocks{m: m, last: dst}
	if o.AddSpecial {
		ids.add(t.prefix...)
	}
	token := func(id int32) { ids.add(id) }
	word := func(word string, _ bool) {
		if m.word(len(word), ids.len(), t.model) {
			t.model.encode(&ids, word, work)
		}
	}
	encode := func(part string, at int, allowSpecial bool) {
		if t.norm != nil {
			part = t.norm.normalize(m, part)
		}
		t.addedNormalized.split(part, allowSpecial, nil, func(part string, within int) {
			t.preTokenizer.split(m, part, at == 0 && within == 0, word)
		}, token)
		m.live = 0
	}
	t.addedRaw.split(text, o.AllowSpecial, o.Plain, func(part string, at int) {
		if o.AllowSpecial && t.addedNormalized.hasSpecial() {
			o.eachSpan(part, at, encode) // where the spans are behind the normalizer is not known
			return
		}
		encode(part, at, o.AllowSpecial)
	}, token)
	if m.err == nil && o.AddSpecial {
		suffix := t.suffix
		if n := len(suffix); o.OpenEnd && n > 0 && t.IsEOS(suffix[n-1]) {
			suffix = suffix[:n-1]
		}
		ids.add(suffix...)
	}
	if m.err != nil {
		return dst, t.inFile(m.err)
	}
	return ids.join(), nil
}

// inFile names the tokenizer's file in an error of a stage.
func (t *Tokenizer) inFile(err error) error {
	var refused *store.FormatError
	if errors.As(err, &refused) && t.path != "" {
		refused.Path = t.path
	}
	return err
}

// Family returns the tokenizer algorithm: "BPE", "SPM", "Unigram" or "WordPiece".
func (t *Tokenizer) Family() string { return t.family }

// VocabSize returns the highest id plus one. The embedding matrix of a model may have
// more rows; the extra rows are padding.
func (t *Tokenizer) VocabSize() int { return t.vocab.size() }

// Piece returns the spelling of a token in the vocabulary, such as "Ġworld" or
// "▁world". The result is false if the vocabulary has no such id.
func (t *Tokenizer) Piece(id int32) (string, bool) {
	if !t.vocab.has(id) {
		return "", false
	}
	return t.vocab.piece(id), true
}

// ID returns the id of the token spelled piece. The result is false if the vocabulary
// has no such piece.
func (t *Tokenizer) ID(piece string) (int32, bool) {
	id := t.vocab.lookup(piece)
	return id, id >= 0
}

// TokenBytes returns the bytes that decoding adds for a token, or nil if the vocabulary
// has no such id. The bytes may hold an incomplete UTF-8 character.
func (t *Tokenizer) TokenBytes(id int32) []byte {
	if !t.vocab.has(id) {
		return nil
	}
	return t.appendToken(nil, id)
}

// Written returns the bytes of a token that stands for text, and whether it stands for one byte of a character that no piece
// covers. ok is false for tokens that plain text never encodes to.
func (t *Tokenizer) Written(id int32) (text []byte, isByte, ok bool) {
	if !t.vocab.has(id) || t.vocab.kinds[id].special() || t.vocab.kinds[id] == kindUnused {
		return nil, false, false
	}
	return t.appendToken(nil, id), t.vocab.kinds[id] == kindByte, true
}

// BOS returns the begin-of-sequence token. The result is false if the tokenizer has
// none. AddSpecial determines whether Encode adds the token.
func (t *Tokenizer) BOS() (int32, bool) { return t.bos, t.bos >= 0 }

// EndOfText returns the token that the model's files name as the end of a text. The result is false if they name
// none.
func (t *Tokenizer) EndOfText() (int32, bool) { return t.eos, t.eos >= 0 }

// EOS returns every token that ends a generation: end of sequence, end of turn and end
// of message.
func (t *Tokenizer) EOS() []int32 { return slices.Clone(t.eosTokens) }

// IsEOS reports whether a token ends a generation.
func (t *Tokenizer) IsEOS(id int32) bool {
	_, found := slices.BinarySearch(t.eosTokens, id)
	return found
}

// IsSpecial reports whether a token is a control token or the unknown token. Plain text
// never encodes to such a token.
func (t *Tokenizer) IsSpecial(id int32) bool {
	return t.vocab.has(id) && t.vocab.kinds[id].special()
}

// ErrID reports a token id that the vocabulary does not have.
var ErrID = errors.New("no such token")

// An invalid tokenizer file results in a *store.FormatError, as for every other part of
// a model. Its Field is a JSON path or a GGUF key.

// malformed returns an error for a field that contradicts the format.
func malformed(field, format string, args ...any) error {
	return formatError(store.ErrFormat, field, format, args)
}

// unsupported returns an error for a valid construct that the package does not
// implement.
func unsupported(field, format string, args ...any) error {
	return formatError(store.ErrUnsupported, field, "not supported: "+format, args)
}

func formatError(kind error, field, format string, args []any) error {
	return &store.FormatError{
		Path: "tokenizer", Off: store.NoOffset, Field: field,
		Reason: fmt.Sprintf(format, args...), Kind: kind,
	}
}
