package safetensors

import "strings"

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
