package safetensors

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/llmrun/llmrun/store"
)

// scanner reads the JSON of headers and indexes. The first error sticks: later calls return
// zero values.
type scanner struct {
	path string
	base int64 // offset of text in the file
	text string
	pos  int
	err  error
}

// fail records a format error at the current offset, unless one is recorded already.
func (s *scanner) fail(reason string, args ...any) {
	if s.err == nil {
		s.err = &store.FormatError{
			Path: s.path, Off: s.base + int64(s.pos), Field: "JSON header",
			Reason: fmt.Sprintf(reason, args...), Kind: store.ErrFormat,
		}
	}
}

// peek skips white space and returns the next byte, or 0 at the end.
func (s *scanner) peek() byte {
	for s.err == nil && s.pos < len(s.text) {
		switch c := s.text[s.pos]; c {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// expect consumes the next byte, which must be c.
func (s *scanner) expect(c byte) {
	if got := s.peek(); got != c {
		s.fail("%s where %q is expected", describe(got), c)
		return
	}
	s.pos++
}

// describe formats the result of peek for error messages.
func describe(c byte) string {
	if c == 0 {
		return "the end"
	}
	return fmt.Sprintf("%q", c)
}

// list calls item for each element between the brackets first and last.
func (s *scanner) list(first, last byte, item func()) {
	s.expect(first)
	if s.peek() == last {
		s.pos++
		return
	}
	for s.err == nil {
		item()
		if s.peek() == last {
			s.pos++
			return
		}
		s.expect(',')
	}
}

// object calls member for each key; member must read the value.
func (s *scanner) object(member func(key string)) {
	s.list('{', '}', func() {
		key := s.str()
		s.expect(':')
		if s.err == nil {
			member(key)
		}
	})
}

// str reads a string. A string without escapes shares memory with the text.
func (s *scanner) str() string {
	s.expect('"')
	start := s.pos
	for s.err == nil && s.pos < len(s.text) {
		switch c := s.text[s.pos]; {
		case c == '"':
			s.pos++
			return s.text[start : s.pos-1]
		case c == '\\':
			return s.escaped(start)
		case c < ' ':
			s.fail("control character %#x in a string", c)
		default:
			s.pos++
		}
	}
	s.fail("a string does not end")
	return ""
}

// escaped reads the rest of a string with escapes. The string began at start.
func (s *scanner) escaped(start int) string {
	var b strings.Builder
	b.WriteString(s.text[start:s.pos])
	for s.err == nil && s.pos < len(s.text) {
		c := s.text[s.pos]
		s.pos++
		switch {
		case c == '"':
			return b.String()
		case c == '\\':
			b.WriteRune(s.escape())
		case c < ' ':
			s.fail("control character %#x in a string", c)
		default:
			b.WriteByte(c)
		}
	}
	s.fail("a string does not end")
	return ""
}

// simpleEscapes maps the letter after a backslash to its character.
var simpleEscapes = map[byte]rune{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// escape reads the rest of an escape sequence after the backslash.
func (s *scanner) escape() rune {
	if s.pos == len(s.text) {
		return 0 // the caller reports the missing end
	}
	c := s.text[s.pos]
	s.pos++
	if c != 'u' {
		r, ok := simpleEscapes[c]
		if !ok {
			s.fail("unknown escape \\%c", c)
		}
		return r
	}
	r := s.hexRune()
	if !utf16.IsSurrogate(r) {
		return r
	}
	if strings.HasPrefix(s.text[s.pos:], `\u`) {
		s.pos += 2
		if both := utf16.DecodeRune(r, s.hexRune()); both != utf8.RuneError {
			return both
		}
	}
	s.fail("half a surrogate pair")
	return 0
}

// hexRune reads four hexadecimal digits.
func (s *scanner) hexRune() rune {
	if len(s.text)-s.pos < 4 {
		s.fail("a string does not end")
		return 0
	}
	r := rune(0)
	for _, c := range []byte(s.text[s.pos : s.pos+4]) {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			s.fail("%q is not a hexadecimal digit", c)
		}
	}
	s.pos += 4
	return r
}

// count reads a non-negative integer. Sizes and offsets have no sign, fraction or exponent.
func (s *scanner) count() int64 {
	s.peek()
	start, n := s.pos, int64(0)
	for s.err == nil && s.pos < len(s.text) && '0' <= s.text[s.pos] && s.text[s.pos] <= '9' {
		digit := int64(s.text[s.pos] - '0')
		if n > (math.MaxInt64-digit)/10 {
			s.fail("a number is too large")
			return 0
		}
		n = n*10 + digit
		s.pos++
	}
	switch {
	case s.pos == start:
		s.fail("%s where a non-negative integer is expected", describe(s.peek()))
	case s.text[start] == '0' && s.pos > start+1:
		s.fail("a number begins with 0")
	case s.pos < len(s.text) && strings.IndexByte(".eE+-", s.text[s.pos]) >= 0:
		s.fail("a number is not a plain integer")
	}
	return n
}

// maxSkipDepth limits the nesting of skipped values.
const maxSkipDepth = 64

// skip skips a value. It checks only nesting and strings, because the value is not used.
func (s *scanner) skip(depth int) {
	if depth == maxSkipDepth {
		s.fail("nested more than %d deep", maxSkipDepth)
		return
	}
	switch c := s.peek(); {
	case c == '{':
		s.object(func(string) { s.skip(depth + 1) })
	case c == '[':
		s.list('[', ']', func() { s.skip(depth + 1) })
	case c == '"':
		s.str()
	default:
		s.skipLiteral()
	}
}

// skipLiteral skips a number, true, false or null.
func (s *scanner) skipLiteral() {
	start := s.pos
	for s.pos < len(s.text) && !strings.ContainsRune(" \t\r\n,:[]{}\"", rune(s.text[s.pos])) {
		s.pos++
	}
	if s.pos == start {
		s.fail("%s where a value is expected", describe(s.peek()))
	}
}
