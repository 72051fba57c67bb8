package jinja

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// operatorAt returns the longest operator at the start of s, or "".
func operatorAt(s string) string {
	if len(s) > 1 {
		switch s[:2] {
		case "//", "**", "==", "!=", ">=", "<=":
			return s[:2]
		}
	}
	if strings.IndexByte("+-/*%~[](){}><=.:|,;", s[0]) >= 0 {
		return s[:1]
	}
	return ""
}

// lexTag emits the tokens of a tag or output expression. n is the length of its
// opening. An end marker inside brackets does not end the tag: {{ {'a': {}} }}.
func (l *lexer) lexTag(n int, open, end tokenKind) error {
	if err := l.emit(open, ""); err != nil {
		return err
	}
	l.advance(n)
	l.brackets = l.brackets[:0]
	for {
		l.advance(len(l.rest()) - len(strings.TrimLeftFunc(l.rest(), isSpace)))
		if l.pos >= len(l.src) {
			return l.fail("the template ends inside a tag")
		}
		if len(l.brackets) == 0 {
			if length, sign := endMarker(l.rest(), end); length > 0 {
				if err := l.emit(end, ""); err != nil {
					return err
				}
				l.advance(length)
				if end == tokTagEnd || sign == '-' {
					l.trimAfter(sign)
				}
				return nil
			}
		}
		if err := l.lexToken(); err != nil {
			return err
		}
	}
}

// endMarker matches the end of a tag. Only a block tag may end with a plus sign.
func endMarker(s string, end tokenKind) (length int, sign byte) {
	marker := "}}"
	if end == tokTagEnd {
		marker = "%}"
	}
	if strings.HasPrefix(s, marker) {
		return 2, 0
	}
	sign = signAt(s, 0)
	if sign == 0 || sign == '+' && end == tokOutEnd || !strings.HasPrefix(s[1:], marker) {
		return 0, 0
	}
	return 3, sign
}

// lexToken emits one name, literal or operator.
func (l *lexer) lexToken() error {
	c, size := utf8.DecodeRuneInString(l.rest())
	switch {
	case c == '\'' || c == '"':
		return l.lexString(byte(c))
	case c >= '0' && c <= '9':
		return l.lexNumber()
	case c == '_' || unicode.IsLetter(c):
		n := size
		for n < len(l.rest()) {
			c, size = utf8.DecodeRuneInString(l.rest()[n:])
			if c != '_' && !unicode.IsLetter(c) && !unicode.IsDigit(c) && !unicode.Is(unicode.M, c) {
				break
			}
			n += size
		}
		err := l.emit(tokName, l.rest()[:n])
		l.advance(n)
		return err
	}
	if op := operatorAt(l.rest()); op != "" {
		return l.lexOperator(op)
	}
	return l.fail("unexpected character %s", strconv.QuoteRune(c))
}

// lexOperator emits an operator and tracks the open brackets, inside which an end
// marker is an operator.
func (l *lexer) lexOperator(op string) error {
	switch op {
	case "(":
		l.brackets = append(l.brackets, ')')
	case "[":
		l.brackets = append(l.brackets, ']')
	case "{":
		l.brackets = append(l.brackets, '}')
	case ")", "]", "}":
		if len(l.brackets) == 0 {
			return l.fail("unexpected '%s'", op)
		}
		last := len(l.brackets) - 1
		if l.brackets[last] != op[0] {
			return l.fail("unexpected '%s', expected '%c'", op, l.brackets[last])
		}
		l.brackets = l.brackets[:last]
	}
	err := l.emit(tokOperator, op)
	l.advance(len(op))
	return err
}

// lexNumber emits an integer or float. After a dot it consumes only digits, so x.0.1
// has two subscripts.
func (l *lexer) lexNumber() error {
	s := l.rest()
	if len(s) > 2 && s[0] == '0' && strings.IndexByte("xXoObB", s[1]) >= 0 {
		n := 2
		for n < len(s) && (s[n] == '_' || isHexDigit(s[n])) {
			n++
		}
		return l.emitNumber(tokInteger, n)
	}
	n := countDigits(s)
	kind := tokInteger
	if !(l.pos > 0 && l.src[l.pos-1] == '.') {
		if n+1 < len(s) && s[n] == '.' && isDigit(s[n+1]) {
			kind = tokFloat
			n += 1 + countDigits(s[n+1:])
		}
		if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
			exponent := n + 1
			if signAt(s, exponent) != 0 {
				exponent++
			}
			if exponent < len(s) && isDigit(s[exponent]) {
				kind = tokFloat
				n = exponent + countDigits(s[exponent:])
			}
		}
	}
	return l.emitNumber(kind, n)
}

// emitNumber emits the first n bytes as a number.
func (l *lexer) emitNumber(kind tokenKind, n int) error {
	err := l.emit(kind, strings.ReplaceAll(l.rest()[:n], "_", ""))
	l.advance(n)
	return err
}

// countDigits returns the length of the digits at the start of s. Single underscores
// may separate the digits.
func countDigits(s string) int {
	n := 0
	for n < len(s) && (isDigit(s[n]) || s[n] == '_' && n > 0 && n+1 < len(s) && isDigit(s[n+1])) {
		n++
	}
	return n
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHexDigit(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// lexString emits a string literal without its quotes and escapes.
func (l *lexer) lexString(quote byte) error {
	s := l.rest()
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case quote:
			text, err := unescape(s[1:i])
			if err != nil {
				return locate(err, l.line)
			}
			err = l.emit(tokString, text)
			l.advance(i + 1)
			return err
		}
	}
	return l.fail("a string lacks its closing %c", quote)
}

// simpleEscapes maps the one-character escapes of Python strings. An escaped newline
// continues the line.
var simpleEscapes = map[byte]string{
	'n': "\n", 't': "\t", 'r': "\r", '\\': "\\", '\'': "'", '"': "\"",
	'a': "\a", 'b': "\b", 'f': "\f", 'v': "\v", '\n': "",
}

// unescape resolves the escapes of a Python string literal. It preserves an unknown
// escape, including the backslash.
func unescape(s string) (string, error) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			i++
			continue
		}
		c := s[i+1]
		i += 2
		if text, ok := simpleEscapes[c]; ok {
			b.WriteString(text)
			continue
		}
		switch {
		case c == 'x' || c == 'u' || c == 'U':
			r, n, err := hexEscape(c, s[i:])
			if err != nil {
				return "", err
			}
			b.WriteRune(r)
			i += n
		case c >= '0' && c <= '7':
			n := 1
			for n < 3 && i-1+n < len(s) && s[i-1+n] >= '0' && s[i-1+n] <= '7' {
				n++
			}
			code, _ := strconv.ParseUint(s[i-1:i-1+n], 8, 16) // at most three octal digits
			b.WriteRune(rune(code))
			i += n - 1
		case c == 'N':
			return "", &Error{Kind: ErrUnsupported, Construct: `\N{…}`, Reason: "named characters are not supported; use \\uXXXX"}
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}

// hexEscape parses the digits of \x, \u or \U at the start of s. A surrogate pair of
// two escapes is one character. A lone surrogate becomes U+FFFD.
func hexEscape(kind byte, s string) (r rune, length int, err error) {
	length = map[byte]int{'x': 2, 'u': 4, 'U': 8}[kind]
	code, ok := parseHex(s, length)
	if !ok || code > unicode.MaxRune {
		return 0, 0, &Error{Kind: ErrSyntax, Reason: "a \\" + string(kind) + " escape in a string is malformed"}
	}
	if kind == 'u' && code >= 0xd800 && code < 0xdc00 && strings.HasPrefix(s[4:], `\u`) {
		if low, ok := parseHex(s[6:], 4); ok && low >= 0xdc00 && low < 0xe000 {
			return rune(0x10000 + (code-0xd800)<<10 + (low - 0xdc00)), 10, nil
		}
	}
	return rune(code), length, nil
}

// parseHex parses the given number of hexadecimal digits at the start of s.
func parseHex(s string, digits int) (uint64, bool) {
	if len(s) < digits {
		return 0, false
	}
	code, err := strconv.ParseUint(s[:digits], 16, 32)
	return code, err == nil
}
