package token

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// decodeRules describes how the tokenizer converts pieces to text.
type decodeRules struct {
	byteLevel bool // pieces use the byte-level alphabet
	// replacements apply to each piece, usually from "▁" to a space. With plainOnly
	// they do not apply to added tokens.
	replacements []replacement
	plainOnly    bool
	byteTokens   bool // decode <0x41> as one byte
	// continues begins the pieces that continue a word; others begin one, with a space. "": pieces have their spaces.
	continues string
	// trimStart and trimEnd are the numbers of spaces to remove at the start and the
	// end of a decoded text. The encoder added them.
	trimStart, trimEnd int
}

// replacement replaces every occurrence of old.
type replacement struct{ old, new string }

func (r replacement) growth() float64 { return ratio(len(r.new), len(r.old)) }

// appendToken appends the bytes of one token. The vocabulary must have an entry for id.
func (t *Tokenizer) appendToken(dst []byte, id int32) []byte {
	piece, kind := t.vocab.piece(id), t.vocab.kinds[id]
	added := kind == kindControl || kind == kindUser || kind == kindUnknown
	switch {
	case t.decoding.byteTokens && kind == kindByte:
		b, _ := byteToken(piece)
		return append(dst, b)
	case t.decoding.byteLevel && !added:
		return appendLetterBytes(dst, piece)
	case t.decoding.plainOnly && added:
		return append(dst, piece...)
	}
	if rule := t.decoding.continues; rule != "" {
		if rest, continues := strings.CutPrefix(piece, rule); continues && !added {
			return append(dst, rest...)
		}
		dst = append(dst, ' ')
	}
	for _, r := range t.decoding.replacements {
		if strings.Contains(piece, r.old) {
			piece = strings.ReplaceAll(piece, r.old, r.new)
		}
	}
	return append(dst, piece...)
}

// AppendBytes appends the bytes of ids to dst. Input that was not valid UTF-8 is
// returned unchanged.
func (t *Tokenizer) AppendBytes(dst []byte, ids []int32) ([]byte, error) {
	start := len(dst)
	for i, id := range ids {
		if !t.vocab.has(id) {
			return dst, fmt.Errorf("%w: id %d at position %d; the vocabulary has %d ids", ErrID, id, i, t.vocab.size())
		}
		dst = t.appendToken(dst, id)
	}
	// A decoded text has the spaces of the encoder only at its ends.
	for n := t.decoding.trimStart; n > 0 && len(dst) > start && dst[start] == ' '; n-- {
		dst = append(dst[:start], dst[start+1:]...)
	}
	for n := t.decoding.trimEnd; n > 0 && len(dst) > start && dst[len(dst)-1] == ' '; n-- {
		dst = dst[:len(dst)-1]
	}
	return dst, nil
}

// Decode returns the text of ids, special tokens included. It replaces invalid UTF-8
// with U+FFFD.
func (t *Tokenizer) Decode(ids []int32) (string, error) {
	raw, err := t.AppendBytes(nil, ids)
	if err != nil {
		return "", err
	}
	text, rest := appendComplete(nil, raw)
	return string(appendIncomplete(text, rest)), nil
}

// Decoder converts a stream of tokens to text. It never splits a character: it buffers
// the bytes of an incomplete character until the next token. In contrast to Decode it
// preserves leading spaces, because the stream continues a prompt.
//
// A Decoder is not safe for concurrent use.
type Decoder struct {
	t       *Tokenizer
	pending []byte // bytes of an incomplete character
	text    []byte
}

// NewDecoder returns a decoder for a new stream.
func (t *Tokenizer) NewDecoder() *Decoder { return &Decoder{t: t} }

// Next adds one token and returns the text that it completes. The result is "" while a
// character is incomplete.
func (d *Decoder) Next(id int32) (string, error) {
	if !d.t.vocab.has(id) {
		return "", fmt.Errorf("%w: id %d; the vocabulary has %d ids", ErrID, id, d.t.vocab.size())
	}
	d.pending = d.t.appendToken(d.pending, id)
	var rest []byte
	d.text, rest = appendComplete(d.text[:0], d.pending)
	d.pending = d.pending[:copy(d.pending, rest)]
	return string(d.text), nil
}

// Flush ends the stream. It returns U+FFFD if a character is incomplete.
func (d *Decoder) Flush() string {
	d.text = appendIncomplete(d.text[:0], d.pending)
	d.pending = d.pending[:0]
	return string(d.text)
}

// appendComplete appends the complete characters of raw to dst and replaces invalid
// bytes with U+FFFD. rest is the incomplete character at the end of raw.
func appendComplete(dst, raw []byte) (text, rest []byte) {
	for len(raw) > 0 {
		r, width := utf8.DecodeRune(raw)
		if r == utf8.RuneError && width == 1 {
			if !utf8.FullRune(raw) {
				return dst, raw
			}
			width = invalidWidth(raw)
			dst = append(dst, "\uFFFD"...)
		} else {
			dst = append(dst, raw[:width]...)
		}
		raw = raw[width:]
	}
	return dst, nil
}

// appendIncomplete appends U+FFFD if rest holds an incomplete character.
func appendIncomplete(dst, rest []byte) []byte {
	if len(rest) > 0 {
		dst = append(dst, "\uFFFD"...)
	}
	return dst
}

// invalidWidth returns the number of bytes that one U+FFFD replaces: the longest prefix
// that could still have become a character, at least one byte.
func invalidWidth(raw []byte) int {
	width := 1
	for width+1 < len(raw) && width < utf8.UTFMax-1 && !utf8.FullRune(raw[:width+1]) {
		width++
	}
	return width
}
