package token

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// decodeRules says how pieces are written as text.
type decodeRules struct {
	byteLevel bool // pieces are in the byte-level alphabet
	// replacements are made in each piece, "▁" to a space as a rule; plainOnly
	// leaves added tokens out.
	replacements []replacement
	plainOnly    bool
	byteTokens   bool // <0x41> is a byte
	// trimStart and trimEnd are how many spaces at the ends of a whole text
	// are not the text's own.
	trimStart, trimEnd int
}

type replacement struct{ old, new string }

// appendToken appends the bytes of one token, which must exist.
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
	for _, r := range t.decoding.replacements {
		if strings.Contains(piece, r.old) {
			piece = strings.ReplaceAll(piece, r.old, r.new)
		}
	}
	return append(dst, piece...)
}

// AppendBytes appends the bytes that ids stand for, exactly as they are: a text
// that was no UTF-8 comes back as it was.
func (t *Tokenizer) AppendBytes(dst []byte, ids []int32) ([]byte, error) {
	start := len(dst)
	for i, id := range ids {
		if !t.vocab.has(id) {
			return dst, fmt.Errorf("%w: id %d at position %d, the vocabulary has %d", ErrID, id, i, t.vocab.size())
		}
		dst = t.appendToken(dst, id)
	}
	for n := t.decoding.trimStart; n > 0 && len(dst) > start && dst[start] == ' '; n-- {
		dst = append(dst[:start], dst[start+1:]...)
	}
	for n := t.decoding.trimEnd; n > 0 && len(dst) > start && dst[len(dst)-1] == ' '; n-- {
		dst = dst[:len(dst)-1]
	}
	return dst, nil
}

// Decode returns the text of ids, special tokens included. What is no UTF-8
// becomes U+FFFD.
func (t *Tokenizer) Decode(ids []int32) (string, error) {
	raw, err := t.AppendBytes(nil, ids)
	if err != nil {
		return "", err
	}
	text, rest := appendComplete(nil, raw)
	return string(appendIncomplete(text, rest)), nil
}

// Decoder writes a stream of tokens as text, as they come. It never splits a
// character: bytes of an unfinished one wait for the next token. Unlike Decode
// it keeps a leading space, because the stream goes on where a prompt ended.
//
// A Decoder is used by one goroutine.
type Decoder struct {
	t       *Tokenizer
	pending []byte // an unfinished character
	text    []byte
}

// NewDecoder begins a stream.
func (t *Tokenizer) NewDecoder() *Decoder { return &Decoder{t: t} }

// Next takes one token and returns the text that it completes, "" while a
// character is unfinished.
func (d *Decoder) Next(id int32) (string, error) {
	if !d.t.vocab.has(id) {
		return "", fmt.Errorf("%w: id %d, the vocabulary has %d", ErrID, id, d.t.vocab.size())
	}
	d.pending = d.t.appendToken(d.pending, id)
	var rest []byte
	d.text, rest = appendComplete(d.text[:0], d.pending)
	d.pending = d.pending[:copy(d.pending, rest)]
	return string(d.text), nil
}

// Flush ends the stream: an unfinished character becomes U+FFFD.
func (d *Decoder) Flush() string {
	d.text = appendIncomplete(d.text[:0], d.pending)
	d.pending = d.pending[:0]
	return string(d.text)
}

// appendComplete appends the characters of raw to dst, with U+FFFD for what is
// none, and returns the beginning of a character that raw ends with.
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

func appendIncomplete(dst, rest []byte) []byte {
	if len(rest) > 0 {
		dst = append(dst, "\uFFFD"...)
	}
	return dst
}

// invalidWidth returns how many bytes one U+FFFD stands for: as many as could
// still have become a character, at least one.
func invalidWidth(raw []byte) int {
	width := 1
	for width+1 < len(raw) && width < utf8.UTFMax-1 && !utf8.FullRune(raw[:width+1]) {
		width++
	}
	return width
}
