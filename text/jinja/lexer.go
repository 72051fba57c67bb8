package jinja

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tokenKind is the type of a token.
type tokenKind uint8

const (
	tokEOF      tokenKind = iota
	tokText               // literal text after whitespace control
	tokOutput             // {{
	tokOutEnd             // }}
	tokTag                // {%
	tokTagEnd             // %}
	tokName               // identifier or keyword
	tokString             // string literal, unescaped
	tokInteger            // integer literal without underscores
	tokFloat              // float literal without underscores
	tokOperator           // operator or bracket
)

// token is a lexical unit. text is empty for delimiters.
type token struct {
	kind tokenKind
	line int
	text string
}

// lexer splits a source into tokens. Outside tags it applies Jinja's whitespace rules
// with trim_blocks and lstrip_blocks, as chat templates expect.
type lexer struct {
	src  string
	pos  int
	line int
	// lineStart reports whether the consumed source ends with a newline. White space
	// before a tag is then indentation, even if the current text holds no newline.
	lineStart bool
	brackets  []byte // closing brackets that the current tag still needs
	tokens    []token
}

// lex returns the tokens of source. The last token is tokEOF.
func lex(source string) ([]token, error) {
	if len(source) > maxSource {
		return nil, limitErrorf("the source has %d bytes; at most %d are allowed", len(source), maxSource)
	}
	if !utf8.ValidString(source) {
		return nil, &Error{Kind: ErrSyntax, Reason: "the source is not valid UTF-8"}
	}
	// Jinja normalizes all line ends to \n.
	source = strings.ReplaceAll(source, "\r\n", "\n")
	source = strings.ReplaceAll(source, "\r", "\n")
	// Jinja removes one newline at the end of a template.
	source = strings.TrimSuffix(source, "\n")
	l := &lexer{src: source, line: 1, lineStart: true}
	for l.pos < len(l.src) {
		if err := l.lexText(); err != nil {
			return nil, err
		}
	}
	return append(l.tokens, token{kind: tokEOF, line: l.line}), nil
}

// fail returns a syntax error at the current line.
func (l *lexer) fail(format string, args ...any) error {
	return &Error{Kind: ErrSyntax, Line: l.line, Reason: fmt.Sprintf(format, args...)}
}

// emit appends a token. It limits the number of tokens, because the syntax tree is much
// larger than the source.
func (l *lexer) emit(kind tokenKind, text string) error {
	if len(l.tokens) >= maxTokens {
		return locate(limitErrorf("the template has more than %d tokens", maxTokens), l.line)
	}
	l.tokens = append(l.tokens, token{kind, l.line, text})
	return nil
}

// advance consumes n bytes and updates the line number.
func (l *lexer) advance(n int) {
	text := l.src[l.pos : l.pos+n]
	if n > 0 {
		l.lineStart = text[n-1] == '\n'
	}
	l.line += strings.Count(text, "\n")
	l.pos += n
}

// rest returns the unconsumed source.
func (l *lexer) rest() string { return l.src[l.pos:] }

// lexText consumes the text up to the next tag and the tag.
func (l *lexer) lexText() error {
	offset := indexOpening(l.rest())
	if offset < 0 {
		err := l.emit(tokText, l.rest())
		l.advance(len(l.rest()))
		return err
	}
	text := l.src[l.pos : l.pos+offset]
	kind := l.src[l.pos+offset+1] // one of { % #
	sign := signAt(l.src, l.pos+offset+2)
	text = l.stripBefore(text, sign, kind)
	if text != "" {
		if err := l.emit(tokText, text); err != nil {
			return err
		}
	}
	l.advance(offset)
	if kind == '%' {
		if n := rawOpening(l.rest()); n > 0 {
			return l.lexRaw(n)
		}
	}
	opening := 2
	if sign != 0 {
		opening++
	}
	switch kind {
	case '#':
		l.advance(opening)
		return l.lexComment()
	case '%':
		return l.lexTag(opening, tokTag, tokTagEnd)
	default:
		return l.lexTag(opening, tokOutput, tokOutEnd)
	}
}

// stripBefore applies whitespace control to the text before a tag. A minus sign removes
// all white space at the end of the text, a plus sign removes none. Without a sign, a
// tag that is alone on its line loses its indentation; an output expression preserves
// it.
func (l *lexer) stripBefore(text string, sign, kind byte) string {
	switch {
	case sign == '-':
		return strings.TrimRightFunc(text, isSpace)
	case sign == '+' || kind == '{':
		return text
	}
	start := strings.LastIndexByte(text, '\n') + 1
	if (start > 0 || l.lineStart) && strings.TrimLeftFunc(text[start:], isSpace) == "" {
		return text[:start]
	}
	return text
}

// lexComment skips a comment. The caller has consumed its opening.
func (l *lexer) lexComment() error {
	end := strings.Index(l.rest(), "#}")
	if end < 0 {
		return l.fail("a comment lacks its closing #}")
	}
	var sign byte
	if end > 0 {
		sign = signOf(l.src[l.pos+end-1])
	}
	l.advance(end + 2)
	l.trimAfter(sign)
	return nil
}

// trimAfter applies whitespace control to the text after a block or comment.
func (l *lexer) trimAfter(sign byte) {
	rest := l.rest()
	switch {
	case sign == '-':
		l.advance(len(rest) - len(strings.TrimLeftFunc(rest, isSpace)))
	case sign == 0 && strings.HasPrefix(rest, "\n"):
		l.advance(1)
	}
}

// lexRaw emits the text between a raw tag of n bytes and its endraw tag.
func (l *lexer) lexRaw(n int) error {
	line := l.line
	// The tag ends with %} or -%}.
	dash := l.src[l.pos+n-3] == '-'
	l.advance(n)
	if dash {
		l.trimAfter('-')
	}
	for from := 0; ; {
		i := strings.Index(l.rest()[from:], "{%")
		if i < 0 {
			l.line = line
			return l.fail("a raw block lacks its {%% endraw %%}")
		}
		from += i
		length, endSign := wordTag(l.rest()[from:], "endraw")
		if length == 0 {
			from += 2
			continue
		}
		text := l.stripBefore(l.rest()[:from], signAt(l.rest(), from+2), '%')
		if text != "" {
			if err := l.emit(tokText, text); err != nil {
				return err
			}
		}
		l.advance(from + length)
		l.trimAfter(endSign)
		return nil
	}
}

// indexOpening returns the position of the first {{, {% or {#, or -1.
func indexOpening(s string) int {
	for from := 0; ; {
		i := strings.IndexByte(s[from:], '{')
		if i < 0 || from+i+1 >= len(s) {
			return -1
		}
		from += i + 1
		if c := s[from]; c == '{' || c == '%' || c == '#' {
			return from - 1
		}
	}
}

// rawOpening returns the length of a raw tag at the start of s, or 0. A raw tag cannot
// end with a plus sign.
func rawOpening(s string) int {
	n, sign := wordTag(s, "raw")
	if sign == '+' {
		return 0
	}
	return n
}

// wordTag matches {% word %} with optional signs and white space at the start of s. It
// returns the length and the closing sign of the tag, or 0.
func wordTag(s, word string) (length int, endSign byte) {
	i := 2
	if signAt(s, i) != 0 {
		i++
	}
	i = skipSpace(s, i)
	if !strings.HasPrefix(s[i:], word) {
		return 0, 0
	}
	i = skipSpace(s, i+len(word))
	if endSign = signAt(s, i); endSign != 0 {
		i++
	}
	if !strings.HasPrefix(s[i:], "%}") {
		return 0, 0
	}
	return i + 2, endSign
}

// skipSpace returns the position of the first character after i that is not white
// space.
func skipSpace(s string, i int) int {
	return len(s) - len(strings.TrimLeftFunc(s[i:], isSpace))
}

// signAt returns the whitespace-control sign at position i, or 0.
func signAt(s string, i int) byte {
	if i < len(s) {
		return signOf(s[i])
	}
	return 0
}

// signOf returns c if it is a sign, or 0.
func signOf(c byte) byte {
	if c == '-' || c == '+' {
		return c
	}
	return 0
}

// isSpace implements Python's str.isspace for one character. In contrast to
// unicode.IsSpace it includes the four ASCII separators.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }
