package token

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonReader reads the two large sections of a tokenizer.json, the vocabulary and the
// merges, without building a tree of a million values. In contrast to encoding/json it
// passes every key to the caller, so the caller can reject duplicates.
//
// The reader records the first error. After an error all methods do nothing.
type jsonReader struct {
	field string // section that data holds, or "" for the entire file
	data  []byte
	at    int
	err   error
}

// maxDepth is the maximum nesting of skipped values. Real files nest fewer than ten
// levels.
const maxDepth = 100

// fail records the first error with the current byte position.
func (r *jsonReader) fail(reason string) {
	if r.err == nil {
		r.err = malformed(strings.TrimSpace(r.field+" byte "+strconv.Itoa(r.at)), "%s", reason)
	}
}

// next skips white space and returns the next byte without consuming it. It returns 0
// at the end.
func (r *jsonReader) next() byte {
	for r.err == nil && r.at < len(r.data) {
		switch c := r.data[r.at]; c {
		case ' ', '\t', '\n', '\r':
			r.at++
		default:
			return c
		}
	}
	return 0
}

// expect skips white space and consumes the byte c.
func (r *jsonReader) expect(c byte) {
	if r.next() != c {
		r.fail("expected " + strconv.QuoteRune(rune(c)))
		return
	}
	r.at++
}

// object reads an object and calls member for every key. member must read the value.
func (r *jsonReader) object(member func(key []byte)) {
	r.delimited('{', '}', func() {
		key := r.str()
		r.expect(':')
		if r.err == nil {
			member(key)
		}
	})
}

// uniqueObject reads a small object and rejects duplicate keys.
func (r *jsonReader) uniqueObject(member func(key []byte)) {
	seen := map[string]bool{}
	r.object(func(key []byte) {
		if seen[string(key)] {
			r.fail("the key " + strconv.Quote(shorten(string(key))) + " is a duplicate")
			return
		}
		seen[string(key)] = true
		member(key)
	})
}

// array calls element before every element. element must read the element.
func (r *jsonReader) array(element func()) { r.delimited('[', ']', element) }

// delimited reads elements between two brackets. It rejects trailing commas.
func (r *jsonReader) delimited(open, end byte, element func()) {
	r.expect(open)
	if r.next() == end {
		r.at++
		return
	}
	for r.err == nil {
		element()
		if r.next() == end {
			r.at++
			return
		}
		r.expect(',')
	}
}

// str reads a string. The result aliases the file's bytes if the string has no escapes.
func (r *jsonReader) str() []byte {
	r.expect('"')
	if r.err != nil {
		return nil
	}
	start := r.at
	end := r.at
	for end < len(r.data) && r.data[end] != '"' && r.data[end] != '\\' && r.data[end] >= ' ' {
		end++
	}
	if end < len(r.data) && r.data[end] == '"' {
		r.at = end + 1
		return r.valid(r.data[start:end])
	}
	text := append([]byte(nil), r.data[start:end]...)
	for r.at = end; r.err == nil && r.at < len(r.data); {
		switch c := r.data[r.at]; {
		case c == '"':
			r.at++
			return r.valid(text)
		case c < ' ':
			r.fail("unescaped control character in a string")
		case c == '\\':
			text = r.escape(text)
		default:
			text = append(text, c)
			r.at++
		}
	}
	r.fail("unterminated string")
	return nil
}

// valid rejects text that is not valid UTF-8.
func (r *jsonReader) valid(text []byte) []byte {
	if !utf8.Valid(text) {
		r.fail("a string is not valid UTF-8")
	}
	return text
}

// escape reads an escape sequence such as \n or \u0123 and appends its character.
func (r *jsonReader) escape(text []byte) []byte {
	if r.at+1 >= len(r.data) {
		r.fail("unterminated string")
		return text
	}
	c := r.data[r.at+1]
	if i := bytes.IndexByte([]byte(`"\/bfnrt`), c); i >= 0 {
		r.at += 2
		return append(text, "\"\\/\b\f\n\r\t"[i])
	}
	high := r.codeUnit(r.at)
	r.at += 6
	if utf16.IsSurrogate(high) {
		low := r.codeUnit(r.at)
		if high = utf16.DecodeRune(high, low); high == utf8.RuneError {
			r.fail("lone surrogate in a string")
		}
		r.at += 6
	}
	return utf8.AppendRune(text, high)
}

// codeUnit reads \u0123 at a position.
func (r *jsonReader) codeUnit(at int) rune {
	if at+6 > len(r.data) || r.data[at] != '\\' || r.data[at+1] != 'u' {
		r.fail("invalid escape sequence in a string")
		return 0
	}
	v, err := strconv.ParseUint(string(r.data[at+2:at+6]), 16, 32)
	if err != nil {
		r.fail("invalid escape sequence in a string")
	}
	return rune(v)
}

// number reads a number and returns its spelling.
func (r *jsonReader) number() []byte {
	r.next()
	start := r.at
	for r.at < len(r.data) && isNumberByte(r.data[r.at]) {
		r.at++
	}
	if start == r.at {
		r.fail("expected a number")
	}
	return r.data[start:r.at]
}

// isNumberByte reports whether c may occur in a number. The callers parse the number.
func isNumberByte(c byte) bool {
	return c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'
}

// id reads a token id.
func (r *jsonReader) id() int32 {
	text := r.number()
	v, err := strconv.ParseInt(string(text), 10, 32)
	if r.err == nil && (err != nil || v < 0) {
		r.fail(string(text) + " is not a token id")
	}
	return int32(v)
}

// raw skips a value of any type and returns its text.
func (r *jsonReader) raw() json.RawMessage {
	r.next()
	start := r.at
	r.skip(0)
	if r.err != nil {
		return nil
	}
	return r.data[start:r.at]
}

// skip validates and skips a value of any type.
func (r *jsonReader) skip(depth int) {
	if depth > maxDepth {
		r.fail("nesting exceeds " + strconv.Itoa(maxDepth) + " levels")
		return
	}
	switch c := r.next(); c {
	case '{':
		r.object(func([]byte) { r.skip(depth + 1) })
	case '[':
		r.array(func() { r.skip(depth + 1) })
	case '"':
		r.str()
	case 't':
		r.literal("true")
	case 'f':
		r.literal("false")
	case 'n':
		r.literal("null")
	default:
		r.number()
	}
}

// literal consumes the word true, false or null.
func (r *jsonReader) literal(w string) {
	if !bytes.HasPrefix(r.data[r.at:], []byte(w)) {
		r.fail("expected " + w)
		return
	}
	r.at += len(w)
}
