package token

import (
	"slices"
	"sync"
)

// Tokenizer turns text into token ids and back. It does not change once made
// and may be used by any number of goroutines.
type Tokenizer struct {
	family          string // "BPE", "SPM" or "Unigram"
	vocab           *vocabulary
	addedRaw        *addedSet // added tokens, found in the text as it is
	norm            normalizer
	addedNormalized *addedSet // added tokens, found in the normalized text
	preTokenizer    chain
	model           model
	decoding        decodeRules
	prefix          []int32 // what AddSpecial puts before a text
	suffix          []int32 // and after it
	bos             int32   // -1 if none
	eosTokens       []int32 // tokens that end a generation, ascending
	pool            sync.Pool
}

// EncodeOptions are what one text is encoded with. The zero value is right for
// text of unknown origin.
type EncodeOptions struct {
	// AllowSpecial makes special tokens of their spellings, as a chat template
	// needs it. Otherwise "<|im_end|>" in a text is eleven characters.
	AllowSpecial bool
	// AddSpecial puts the tokens before and after the text that the model
	// expects around one, as a rule a begin-of-sequence token.
	AddSpecial bool
}

// Encode returns the ids of a text.
func (t *Tokenizer) Encode(text string, o EncodeOptions) []int32 {
	return t.AppendEncode(nil, text, o)
}

// AppendEncode appends the ids of a text to dst.
func (t *Tokenizer) AppendEncode(dst []int32, text string, o EncodeOptions) []int32 {
	work, _ := t.pool.Get().(*scratch)
	if work == nil {
		work = new(scratch)
	}
	defer t.pool.Put(work)
	if o.AddSpecial {
		dst = append(dst, t.prefix...)
	}
	token := func(id int32) { dst = append(dst, id) }
	word := func(word string, _ bool) { dst = t.model.encode(dst, word, work) }
	t.addedRaw.split(text, o.AllowSpecial, func(part string, at int) {
		if t.norm != nil {
			part = t.norm.normalize(part)
		}
		t.addedNormalized.split(part, o.AllowSpecial, func(part string, within int) {
			t.preTokenizer.split(part, at == 0 && within == 0, word)
		}, token)
	}, token)
	if o.AddSpecial {
		dst = append(dst, t.suffix...)
	}
	return dst
}

// Family names the kind of model: "BPE", "SPM" or "Unigram".
func (t *Tokenizer) Family() string { return t.family }

// VocabSize returns one more than the highest id. A model may have more rows
// than this in its embedding: they are padding.
func (t *Tokenizer) VocabSize() int { return t.vocab.size() }

// Piece returns a token as the vocabulary spells it: "Ġworld", "▁world".
func (t *Tokenizer) Piece(id int32) (string, bool) {
	if !t.vocab.has(id) {
		return "", false
	}
	return t.vocab.piece(id), true
}

// ID returns the token with a spelling.
func (t *Tokenizer) ID(piece string) (int32, bool) {
	id := t.vocab.lookup(piece)
	return id, id >= 0
}

// TokenBytes returns the bytes that a token adds to a text; nil where there is
// no such token. They need not be whole characters.
func (t *Tokenizer) TokenBytes(id int32) []byte {
	if !t.vocab.has(id) {
		return nil
	}
	return t.appendToken(nil, id)
}

// BOS returns the begin-of-sequence token. Whether a text should begin with it
// is what AddSpecial decides.
func (t *Tokenizer) BOS() (int32, bool) { return t.bos, t.bos >= 0 }

// EOS returns every token that ends a generation: end of sequence, of turn, of
// message.
func (t *Tokenizer) EOS() []int32 { return slices.Clone(t.eosTokens) }

// IsEOS reports whether a token ends a generation.
func (t *Tokenizer) IsEOS(id int32) bool {
	_, found := slices.BinarySearch(t.eosTokens, id)
	return found
}

// IsSpecial reports whether a token stands for a role in the protocol between
// model and program rather than for text.
func (t *Tokenizer) IsSpecial(id int32) bool {
	return t.vocab.has(id) && t.vocab.kinds[id].special()
}
