// Package toml reads the part of TOML 1.0 that a file of settings needs: comments, tables, and keys whose values are strings
// of one line, integers, floats and booleans. It refuses the rest of TOML (arrays, dates, strings of several lines, dotted and
// quoted keys, tables in values) by name, and what is no TOML at all, with the number of the line.
//
// The format is that of https://toml.io/en/v1.0.0.
package toml

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Kind is the type of a value.
type Kind string

// The kinds of values, as messages call them.
const (
	String  Kind = "a string"
	Integer Kind = "a whole number"
	Float   Kind = "a number"
	Boolean Kind = "true or false"
)

// An Entry is a key with its value.
type Entry struct {
	Table string // "": before the first table
	Key   string
	Kind  Kind
	Text  string // a string without quotes and escapes; a number in decimal, without underscores; true or false
	Line  int    // from 1 on
}

// An Error is what is wrong in a line.
type Error struct {
	Line    int
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Message) }

// Parse returns the entries of a text, in their order, or an *Error.
func Parse(text string) ([]Entry, error) {
	text = strings.TrimPrefix(text, "\ufeff") // editors of Windows put it there
	if !utf8.ValidString(text) {
		return nil, &Error{1 + strings.Count(text[:invalidAt(text)], "\n"), "the text must be UTF-8"}
	}
	p := parser{keys: map[[2]string]int{}, tables: map[string]int{}}
	for line := range strings.SplitSeq(text, "\n") {
		p.number++
		p.rest = strings.TrimSuffix(line, "\r")
		if err := p.line(); err != nil {
			return nil, err
		}
	}
	return p.entries, nil
}

// invalidAt returns the place of the first bytes that are not UTF-8.
func invalidAt(text string) int {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(text)
}

// A parser reads line after line.
type parser struct {
	rest    string // of the line
	number  int    // of the line
	table   string
	tables  map[string]int    // their lines
	keys    map[[2]string]int // the lines of a table's keys
	entries []Entry
}

func (p *parser) errorf(format string, args ...any) error {
	return &Error{p.number, fmt.Sprintf(format, args...)}
}

// space skips white space.
func (p *parser) space() { p.rest = strings.TrimLeft(p.rest, " \t") }

// line reads the line that is left in rest.
func (p *parser) line() error {
	if i := strings.IndexFunc(p.rest, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }); i >= 0 {
		return p.errorf("the control character %q is not allowed", p.rest[i])
	}
	p.space()
	var err error
	switch {
	case p.rest == "" || p.rest[0] == '#':
		return nil
	case p.rest[0] == '[':
		err = p.header()
	default:
		err = p.entry()
	}
	if err != nil {
		return err
	}
	if p.space(); p.rest != "" && p.rest[0] != '#' {
		return p.errorf("unexpected %q behind the value: a line holds one key, and text stands in quotes", p.rest)
	}
	return nil
}

// header reads the name of a table.
func (p *parser) header() error {
	if strings.HasPrefix(p.rest, "[[") {
		return p.errorf("[[…]] begins an array, which is not supported: write [name]")
	}
	p.rest = p.rest[1:]
	p.space()
	name, err := p.name()
	if err != nil {
		return err
	}
	if p.space(); !strings.HasPrefix(p.rest, "]") {
		return p.errorf("the name of a table ends with ], as in [%s]", name)
	}
	p.rest = p.rest[1:]
	if before := p.tables[name]; before > 0 {
		return p.errorf("[%s] already begins in line %d: join the two", name, before)
	}
	p.table, p.tables[name] = name, p.number
	return nil
}

// name reads a bare key.
func (p *parser) name() (string, error) {
	end := strings.IndexFunc(p.rest, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
	if end < 0 {
		end = len(p.rest)
	}
	name, rest := p.rest[:end], p.rest[end:]
	switch {
	case name == "" && rest != "" && (rest[0] == '"' || rest[0] == '\''):
		return "", p.errorf("keys in quotes are not supported: write the name alone")
	case name == "":
		return "", p.errorf("a name must consist of letters, digits, - and _, as in: threads = 4")
	case strings.HasPrefix(strings.TrimLeft(rest, " \t"), "."):
		return "", p.errorf("names with dots are not supported: write [%s], and the rest of the name below it", name)
	}
	p.rest = rest
	return name, nil
}

// entry reads a key and its value.
func (p *parser) entry() error {
	e := Entry{Table: p.table, Line: p.number}
	var err error
	if e.Key, err = p.name(); err != nil {
		return err
	}
	if p.space(); !strings.HasPrefix(p.rest, "=") {
		return p.errorf("%s needs a value behind =, as in: threads = 4", e.Key)
	}
	p.rest = p.rest[1:]
	p.space()
	if e.Kind, e.Text, err = p.value(e.Key); err != nil {
		return err
	}
	key := [2]string{e.Table, e.Key}
	if before := p.keys[key]; before > 0 {
		return p.errorf("%s is already set in line %d: remove one of the two", e.Key, before)
	}
	p.keys[key] = p.number
	p.entries = append(p.entries, e)
	return nil
}

// value reads a value.
func (p *parser) value(key string) (Kind, string, error) {
	switch {
	case p.rest == "" || p.rest[0] == '#':
		return "", "", p.errorf("%s has no value: write one behind =, or remove the line", key)
	case strings.HasPrefix(p.rest, `"""`) || strings.HasPrefix(p.rest, "'''"):
		return "", "", p.errorf("%s: text of several lines is not supported: write it in one line, with one quote at each end", key)
	case p.rest[0] == '[' || p.rest[0] == '{':
		return "", "", p.errorf("%s: lists and tables are not supported: write one value", key)
	case p.rest[0] == '"':
		text, err := p.basic(key)
		return String, text, err
	case p.rest[0] == '\'':
		text, rest, ended := strings.Cut(p.rest[1:], "'")
		if !ended {
			return "", "", p.errorf("%s: the text needs a second ' at its end", key)
		}
		p.rest = rest
		return String, text, nil
	}
	end := strings.IndexAny(p.rest, " \t#,")
	if end < 0 {
		end = len(p.rest)
	}
	word := p.rest[:end]
	kind, text := number(word)
	if word == "true" || word == "false" {
		kind, text = Boolean, word
	}
	if kind == "" {
		return "", "", p.errorf("%s: %s is no value: text stands in quotes, as in %s = %s", key, word, key, strconv.Quote(strings.TrimSpace(p.rest)))
	}
	p.rest = p.rest[end:]
	return kind, text, nil
}

// escapes are the letters behind a backslash, and what they stand for.
var escapes = map[byte]string{'b': "\b", 't': "\t", 'n': "\n", 'f': "\f", 'r': "\r", '"': `"`, '\\': `\`}

// basic reads a text in double quotes.
func (p *parser) basic(key string) (string, error) {
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; c {
		case '"':
			p.rest = p.rest[i+1:]
			return b.String(), nil
		case '\\':
			i++
			if i == len(p.rest) {
				break
			}
			digits := map[byte]int{'u': 4, 'U': 8}[p.rest[i]]
			text, known := escapes[p.rest[i]]
			if digits > 0 {
				text, known = codePoint(p.rest[i+1:], digits)
				i += digits
			}
			if !known {
				return "", p.errorf(`%s: a backslash begins an escape, and this one is none: write \\ for one backslash, or the text in single quotes`, key)
			}
			b.WriteString(text)
		default:
			b.WriteByte(c)
		}
	}
	return "", p.errorf(`%s: the text needs a second " at its end`, key)
}

// codePoint returns the character of the first digits of a text.
func codePoint(text string, digits int) (string, bool) {
	if len(text) < digits {
		return "", false
	}
	n, err := strconv.ParseUint(text[:digits], 16, 32)
	if err != nil || n > utf8.MaxRune || !utf8.ValidRune(rune(n)) {
		return "", false
	}
	return string(rune(n)), true
}

// number returns the kind of a number and its text without underscores and prefix, or "".
func number(word string) (Kind, string) {
	plain, ok := withoutUnderscores(word)
	if !ok {
		return "", ""
	}
	for prefix, base := range map[string]int{"0x": 16, "0o": 8, "0b": 2} {
		if digits, is := strings.CutPrefix(plain, prefix); is {
			n, err := strconv.ParseUint(digits, base, 63)
			if err != nil {
				return "", ""
			}
			return Integer, strconv.FormatUint(n, 10)
		}
	}
	digits := strings.TrimLeft(plain, "+-")
	if len(plain)-len(digits) > 1 || len(digits) > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9' {
		return "", "" // two signs; a zero before other digits
	}
	if n, err := strconv.ParseInt(plain, 10, 64); err == nil {
		return Integer, strconv.FormatInt(n, 10)
	}
	if !isFloat(digits) {
		return "", ""
	}
	if _, err := strconv.ParseFloat(plain, 64); err != nil {
		return "", ""
	}
	return Float, strings.TrimPrefix(plain, "+")
}

// withoutUnderscores removes underscores that stand between digits.
func withoutUnderscores(word string) (string, bool) {
	digits := "0123456789"
	if strings.HasPrefix(word, "0x") {
		digits += "abcdefABCDEF"
	}
	isDigit := func(i int) bool { return i >= 0 && i < len(word) && strings.IndexByte(digits, word[i]) >= 0 }
	for i := range len(word) {
		if word[i] == '_' && (!isDigit(i-1) || !isDigit(i+1)) {
			return "", false
		}
	}
	return strings.ReplaceAll(word, "_", ""), true
}

// isFloat reports whether a text without a sign is digits with a fraction between digits, an exponent, or both. The standard
// library accepts more.
func isFloat(text string) bool {
	whole, exponent, hasExponent := strings.Cut(strings.ToLower(text), "e")
	whole, fraction, hasFraction := strings.Cut(whole, ".")
	if exponent != "" && (exponent[0] == '+' || exponent[0] == '-') {
		exponent = exponent[1:]
	}
	return (hasFraction || hasExponent) && digitsOnly(whole) && (!hasFraction || digitsOnly(fraction)) && (!hasExponent || digitsOnly(exponent))
}

func digitsOnly(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }
