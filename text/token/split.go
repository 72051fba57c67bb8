package token

import (
	"strings"
	"unicode/utf8"
)

// splitter is one stage of the pre-tokenizer. It splits text into words and yields them
// in order. start reports whether the text begins at the start of the input; a yielded
// word has start set only if it is the first word of such a text.
type splitter interface {
	//
	// A stage that makes text counts it while yield uses it, and yields nothing after a
	// refusal by the meter.
	split(m *meter, text string, start bool, yield func(word string, start bool))
}

// chain applies splitters in order, each to the words of the previous one. It builds no
// list of words.
type chain []splitter

func (c chain) split(m *meter, text string, start bool, yield func(string, bool)) {
	for i := len(c) - 1; i > 0; i-- {
		stage, next := c[i], yield
		yield = func(word string, start bool) { stage.split(m, word, start, next) }
	}
	if len(c) > 0 {
		c[0].split(m, text, start, yield)
		return
	}
	yield(text, start)
}

// finder returns the first match at or after a position. Without a match it returns the
// end of the text twice.
type finder interface {
	find(text string, from int) (start, end int)
}

// literal is a finder of a fixed string.
type literal string

func (l literal) find(text string, from int) (start, end int) {
	i := strings.Index(text[from:], string(l))
	if i < 0 {
		return len(text), len(text)
	}
	return from + i, from + i + len(l)
}

// behavior selects the treatment of the matches of a pattern.
type behavior int

const (
	isolated     behavior = iota // a match is a separate word
	removed                      // a match is dropped
	withPrevious                 // a match extends the previous word
	withNext                     // a match starts the next word
	contiguous                   // adjacent matches form one word
)

// behaviors maps the names in tokenizer.json.
var behaviors = map[string]behavior{
	"Isolated": isolated, "Removed": removed, "MergedWithPrevious": withPrevious,
	"MergedWithNext": withNext, "Contiguous": contiguous,
}

// patternSplit splits at the matches of a pattern. With invert it treats the text
// between the matches as the matches.
type patternSplit struct {
	match    finder
	behavior behavior
	invert   bool
}

func (c *patternSplit) split(m *meter, text string, start bool, yield func(string, bool)) {
	e := emitter{text: text, start: start, yield: yield, behavior: c.behavior}
	for at := 0; at < len(text) && m.err == nil; {
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

// emitter joins parts of a text into words according to a behavior.
type emitter struct {
	text     string
	start    bool
	yield    func(string, bool)
	behavior behavior
	from, to int  // current word
	matched  bool // the last part was a match
}

// add processes the next part of the text.
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

// flush yields the current word.
func (e *emitter) flush() {
	if e.to > e.from {
		e.yield(e.text[e.from:e.to], e.start && e.from == 0)
	}
	e.from = e.to
}

// metaspace replaces spaces with a symbol, usually "▁", and adds one before the text if
// prefix requires it.
type metaspace struct {
	symbol string
	prefix prefixScheme
	splits bool // start a new word at each symbol
}

// prefixScheme selects the texts that get a space before them.
type prefixScheme int

const (
	prefixNever  prefixScheme = iota
	prefixFirst               // before the first word of the input
	prefixAlways              // also after every added token
)

// prefixSchemes maps the names in tokenizer.json.
var prefixSchemes = map[string]prefixScheme{
	"never": prefixNever, "first": prefixFirst, "always": prefixAlways,
}

func (c *metaspace) split(m *meter, text string, start bool, yield func(string, bool)) {
	before := m.live
	defer func() { m.live = before }()
	size := len(text) + strings.Count(text, " ")*(len(c.symbol)-1) + len(c.symbol)
	for range 2 { // the text with its symbols, and that with a prefix
		if !m.hold("pre_tokenizer.Metaspace", size) {
			return
		}
	}
	text = strings.ReplaceAll(text, " ", c.symbol)
	prefix := c.prefix == prefixAlways || c.prefix == prefixFirst && start
	if prefix && !strings.HasPrefix(text, c.symbol) {
		text = c.symbol + text
	}
	if !c.splits {
		yield(text, start)
		return
	}
	(&patternSplit{match: literal(c.symbol), behavior: withNext}).split(m, text, start, yield)
}

// metaSymbolSplit splits before each run of "▁" that follows another character. No
// tokenizer file specifies this stage. The package adds it if no piece of the
// vocabulary crosses such a position, because encoding words is faster than encoding an
// entire text.
type metaSymbolSplit struct{}

// metaSymbol represents a space in the pieces of SentencePiece.
const metaSymbol = "▁"

func (metaSymbolSplit) split(_ *meter, text string, start bool, yield func(string, bool)) {
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

// byteLevelLetters spells bytes in the byte-level alphabet for the stages after it.
type byteLevelLetters struct{}

func (byteLevelLetters) split(m *meter, text string, start bool, yield func(string, bool)) {
	if before := m.live; m.hold("pre_tokenizer.ByteLevel", 4*len(text)) { // the letters, as bytes and as a string
		yield(string(appendLetters(make([]byte, 0, len(text)*2), text)), start)
		m.live = before
	}
}

// spacePrefix adds a space before texts that do not start with one.
type spacePrefix struct{}

func (spacePrefix) split(m *meter, text string, start bool, yield func(string, bool)) {
	if strings.HasPrefix(text, " ") {
		yield(text, start)
		return
	}
	if before := m.live; m.hold("pre_tokenizer.ByteLevel", 1+len(text)) {
		yield(" "+text, start)
		m.live = before
	}
}

// splitLong splits text longer than limit at a character boundary. This bounds the
// working memory of one word.
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
