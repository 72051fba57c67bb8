package token

import (
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalizer rewrites text before the pre-tokenizer splits it.
type normalizer interface {
	// normalize returns the rewritten text. It counts what it makes; after a refusal by
	// the meter it returns "".
	normalize(m *meter, text string) string
	grower
}

// normalizers applies several normalizers in order.
type normalizers []normalizer

func (ns normalizers) normalize(m *meter, text string) string {
	kept := int64(0)
	for _, n := range ns {
		before := m.live
		text = n.normalize(m, text)
		kept = m.replaced(before, kept)
	}
	return text
}

// prepend adds a string before every non-empty text.
type prepend string

func (p prepend) normalize(m *meter, text string) string {
	if text == "" || !m.hold("normalizer.Prepend", len(p)+len(text)) {
		return ""
	}
	return string(p) + text
}

// replace replaces every match of a pattern.
type replace struct {
	match finder
	with  string
}

func (r *replace) normalize(m *meter, text string) string {
	const stage = "normalizer.Replace"
	if l, ok := r.match.(literal); ok {
		n := strings.Count(text, string(l))
		if n == 0 || !m.hold(stage, len(text)+n*(len(r.with)-len(l))) {
			return ifNot(m.err, text)
		}
		return strings.ReplaceAll(text, string(l), r.with)
	}
	b := metered{m: m, stage: stage}
	for at := 0; at < len(text) && m.err == nil; {
		from, to := r.match.find(text, at)
		b.writeString(text[at:from])
		if to > from {
			b.writeString(r.with)
		}
		at = to
	}
	return b.text()
}

// ifNot returns text unless err is set.
func ifNot(err error, text string) string {
	if err != nil {
		return ""
	}
	return text
}

// form is one of Unicode's four normal forms.
type form norm.Form

func (f form) normalize(m *meter, text string) string {
	if norm.Form(f).IsNormalString(text) {
		return text
	}
	b := metered{m: m, stage: "normalizer.NF"}
	w := norm.Form(f).Writer(&b)
	_, _ = io.WriteString(w, text) // b fails only with m
	_ = w.Close()
	return b.text()
}

// lowercase converts text to lower case.
type lowercase struct{}

// normalize converts each character to lower case. It preserves invalid UTF-8.
func (lowercase) normalize(m *meter, text string) string {
	b := metered{m: m, stage: "normalizer.Lowercase"}
	b.room(len(text))
	for at := 0; at < len(text) && m.err == nil; {
		r, width := decode(text, at)
		switch r {
		case notRune:
			b.writeByte(text[at])
		case 'İ': // the one capital whose small letter is two characters
			b.writeString("i\u0307")
		default:
			b.writeRune(unicode.ToLower(r))
		}
		at += width
	}
	return b.text()
}

// strip removes white space at the ends of a text.
type strip struct{ left, right bool }

func (s strip) normalize(_ *meter, text string) string {
	if s.left {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
	}
	if s.right {
		text = strings.TrimRightFunc(text, unicode.IsSpace)
	}
	return text
}

// stripAccents removes marks, spacing ones too, as the normalizer of its name in tokenizers. A decomposing normalizer must
// run first.
type stripAccents struct{}

func (stripAccents) normalize(m *meter, text string) string {
	size := len(text)
	if !utf8.ValidString(text) {
		size *= len("\uFFFD") // which replaces each invalid byte
	}
	if !m.hold("normalizer.StripAccents", size) {
		return ""
	}
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.M, r) {
			return -1
		}
		return r
	}, text)
}
