package token

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// normalizer rewrites text before the pre-tokenizer splits it.
type normalizer interface {
	normalize(text string) string
	grower
}

// normalizers applies several normalizers in order.
type normalizers []normalizer

func (ns normalizers) normalize(text string) string {
	for _, n := range ns {
		text = n.normalize(text)
	}
	return text
}

// prepend adds a string before every non-empty text.
type prepend string

func (p prepend) normalize(text string) string {
	if text == "" {
		return text
	}
	return string(p) + text
}

// replace replaces every match of a pattern.
type replace struct {
	match finder
	with  string
}

func (r *replace) normalize(text string) string {
	if l, ok := r.match.(literal); ok {
		return strings.ReplaceAll(text, string(l), r.with)
	}
	var b strings.Builder
	for at := 0; at < len(text); {
		from, to := r.match.find(text, at)
		b.WriteString(text[at:from])
		if to > from {
			b.WriteString(r.with)
		}
		at = to
	}
	return b.String()
}

// form is one of Unicode's four normal forms.
type form norm.Form

func (f form) normalize(text string) string { return norm.Form(f).String(text) }

// lowercase converts text to lower case.
type lowercase struct{}

// normalize converts each character to lower case. It preserves invalid UTF-8.
func (lowercase) normalize(text string) string {
	var b strings.Builder
	for at := 0; at < len(text); {
		r, width := decode(text, at)
		if r == notRune {
			b.WriteByte(text[at])
		} else {
			b.WriteRune(unicode.ToLower(r))
		}
		at += width
	}
	return b.String()
}

// strip removes white space at the ends of a text.
type strip struct{ left, right bool }

func (s strip) normalize(text string) string {
	if s.left {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
	}
	if s.right {
		text = strings.TrimRightFunc(text, unicode.IsSpace)
	}
	return text
}

// stripAccents removes non-spacing marks. A decomposing normalizer must run first.
type stripAccents struct{}

func (stripAccents) normalize(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, text)
}
