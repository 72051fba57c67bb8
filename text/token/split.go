package token

import (
	"strings"
	"unicode/utf8"
)

// splitter cuts text into words, which the model then encodes one by one.
// Words come in order. start says whether the text begins where the caller's
// text does; it is true for the first word of such a text only.
type splitter interface {
	split(text string, start bool, yield func(word string, start bool))
}

// chain applies splitters one after the other, each to the words of the one
// before. No list of words is ever built.
type chain []splitter

func (c chain) split(text string, start bool, yield func(string, bool)) {
	for i := len(c) - 1; i > 0; i-- {
		stage, next := c[i], yield
		yield = func(word string, start bool) { stage.split(word, start, next) }
	}
	if len(c) > 0 {
		c[0].split(text, start, yield)
		return
	}
	yield(text, start)
}

// finder finds the first match at or after a position; where there is none,
// both ends are the text's end.
type finder interface {
	find(text string, from int) (start, end int)
}

// literal finds a string.
type literal string

func (l literal) find(text string, from int) (start, end int) {
	i := strings.Index(text[from:], string(l))
	if i < 0 {
		return len(text), len(text)
	}
	return from + i, from + i + len(l)
}

// behavior says what becomes of the matches of a pattern.
type behavior int

const (
	isolated     behavior = iota // a match is a word of its own
	removed                      // matches are dropped
	withPrevious                 // a match ends the word before it
	withNext                     // a match begins the word after it
	contiguous                   // neighbouring matches are one word
)

var behaviors = map[string]behavior{
	"Isolated": isolated, "Removed": removed, "MergedWithPrevious": withPrevious,
	"MergedWithNext": withNext, "Contiguous": contiguous,
}

// patternSplit splits at the matches of a pattern; where invert is set, what lies
// between the matches plays their part.
type patternSplit struct {
	match    finder
	behavior behavior
	invert   bool
}

func (c *patternSplit) split(text string, start bool, yield func(string, bool)) {
	e := emitter{text: text, start: start, yield: yield, behavior: c.behavior}
	for at := 0; at < len(text); {
		from, to := c.match.find(text, at)
		if from > at {
			e.add(at, from, c.invert)
		}
		if to > from {
			e.add(from, to, !c.invert)
		}
		at = to
	}
	e.flush()
}

// emitter joins parts of a text into words as a behavior asks.
type emitter struct {
	text     string
	start    bool
	yield    func(string, bool)
	behavior behavior
	from, to int  // the word being collected
	matched  bool // whether the last part was a match
}

// add takes the next part of the text.
func (e *emitter) add(from, to int, match bool) {
	var join bool
	switch e.behavior {
	case removed:
		if match {
			return
		}
	case withPrevious:
		join = match && !e.matched
	case withNext:
		join = !match && e.matched
	case contiguous:
		join = match == e.matched
	}
	if !join || e.to != from {
		e.flush()
		e.from = from
	}
	e.to, e.matched = to, match
}

func (e *emitter) flush() {
	if e.to > e.from {
		e.yield(e.text[e.from:e.to], e.start && e.from == 0)
	}
	e.from = e.to
}

// metaspace writes spaces as "▁" and, where asked, puts one before the text.
type metaspace struct {
	symbol string
	prefix prefixScheme
	splits bool // whether words begin at marks
}

type prefixScheme int

const (
	prefixNever  prefixScheme = iota
	prefixFirst               // before the first word of a text
	prefixAlways              // also after every added token
)

var prefixSchemes = map[string]prefixScheme{
	"never": prefixNever, "first": prefixFirst, "always": prefixAlways,
}

func (m *metaspace) split(text string, start bool, yield func(string, bool)) {
	text = strings.ReplaceAll(text, " ", m.symbol)
	prefix := m.prefix == prefixAlways || m.prefix == prefixFirst && start
	if prefix && !strings.HasPrefix(text, m.symbol) {
		text = m.symbol + text
	}
	if !m.splits {
		yield(text, start)
		return
	}
	(&patternSplit{match: literal(m.symbol), behavior: withNext}).split(text, start, yield)
}

// metaSymbolSplit cuts before each run of "▁" that follows something else. It is
// not part of any description: it is added where no piece of the vocabulary
// reaches across such a place, because words are faster than whole texts.
type metaSymbolSplit struct{}

const metaSymbol = "▁"

func (metaSymbolSplit) split(text string, start bool, yield func(string, bool)) {
	from := 0
	for at := 0; ; {
		i := strings.Index(text[at:], metaSymbol)
		if i < 0 {
			break
		}
		if at+i > from && i > 0 {
			yield(text[from:at+i], start && from == 0)
			from = at + i
		}
		at += i + len(metaSymbol)
	}
	if from < len(text) {
		yield(text[from:], start && from == 0)
	}
}

// byteLevelLetters spells bytes in the byte-level alphabet for the splitters behind it.
type byteLevelLetters struct{}

func (byteLevelLetters) split(text string, start bool, yield func(string, bool)) {
	yield(string(appendLetters(make([]byte, 0, len(text)*2), text)), start)
}

// spacePrefix puts a space before texts that do not begin with one.
type spacePrefix struct{}

func (spacePrefix) split(text string, start bool, yield func(string, bool)) {
	if !strings.HasPrefix(text, " ") {
		text = " " + text
	}
	yield(text, start)
}

// splitLong cuts text longer than a limit at a character, so that the scratch of
// one word is bounded.
func splitLong(text string, limit int, yield func(string)) {
	for len(text) > limit {
		at := limit
		for at > limit-utf8.UTFMax && !utf8.RuneStart(text[at]) {
			at--
		}
		yield(text[:at])
		text = text[at:]
	}
	yield(text)
}
