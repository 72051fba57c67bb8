package document

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"unicode/utf8"
)

// Part is a piece of a text. The parts of a text follow each other without a gap.
type Part struct {
	Start, End int64  // bytes of the text
	Tokens     int    // about; those of its lines and sentences, added up
	Heading    string // the first one in the part, "" without one
}

// Limits bound a part.
type Limits struct {
	Tokens int
	Bytes  int // a part never needs more memory
}

// minBytes is the least Limits.Bytes: a window must hold a few words.
const minBytes = 256

// chapterTokens is the least length of what precedes a heading of the first level for that to begin a part: a
// chapter is summarized by itself, a title page is not.
const chapterTokens = 128

// rank is how good a place is to divide a text.
type rank int

const (
	rankWord rank = iota
	rankLine
	rankSentence
	rankParagraph
	rankRule // a line of dashes, or a form feed
	rankH6
	rankH1 = rankH6 + 5
)

// boundary is a place between two units of a window.
type boundary struct {
	at     int // bytes from the window's start
	rank   rank
	fenced bool   // the text behind it is in a block of code
	title  string // of the heading that follows
}

// Split divides the text of r. count counts the tokens of a short text. An error ends the sequence.
//
// Where a part ends depends on the text around that place only, so that after a change of the text most parts
// stay as they are: a part is at least half full, the best place in its second half ends it, and between places
// of the same rank a hash of what follows decides.
func Split(r io.ReaderAt, size int64, l Limits, count func(text string) (int, error)) iter.Seq2[Part, error] {
	return func(yield func(Part, error) bool) {
		s := &splitter{r: r, size: size, limits: l, count: count, window: make([]byte, max(l.Bytes, minBytes))}
		for s.pos < size {
			part, err := s.next()
			if !yield(part, err) || err != nil {
				return
			}
		}
	}
}

// splitter is the state of Split.
type splitter struct {
	r      io.ReaderAt
	size   int64
	limits Limits
	count  func(string) (int, error)
	window []byte
	pos    int64 // where the next part begins
	fenced bool  // in a block of code
}

// next returns the part at pos, which becomes its end.
func (s *splitter) next() (Part, error) {
	text := s.window[:min(int64(len(s.window)), s.size-s.pos)]
	if _, err := s.r.ReadAt(text, s.pos); err != nil && err != io.EOF {
		return Part{}, fmt.Errorf("reading the document at offset %d: %w", s.pos, err)
	}
	last := s.pos+int64(len(text)) == s.size
	if err := checkText(text, s.pos, last); err != nil {
		return Part{}, err
	}
	end, tokens, err := s.cut(text, last)
	if err != nil {
		return Part{}, err
	}
	part := Part{Start: s.pos, End: s.pos + int64(end.at), Tokens: tokens, Heading: end.title}
	s.pos, s.fenced = part.End, end.fenced
	return part, nil
}

// cut returns the end of the part at the beginning of text and its tokens. The title of the result is that of
// the first heading in the part.
func (s *splitter) cut(text []byte, last bool) (boundary, int, error) {
	places := scan(text, s.fenced, last)
	var fits []fit
	title, tokens, from := "", 0, 0
	if len(places) > 0 && places[0].at == 0 {
		title, places = places[0].title, places[1:]
	}
	for i := 0; i < len(places); i++ {
		p := places[i]
		n, err := s.count(string(text[from:p.at]))
		if err != nil {
			return boundary{}, 0, err
		}
		if (n > s.limits.Tokens/2 || p.at-from > len(s.window)/2) && p.rank > rankWord {
			if words := wordsOf(text[from:p.at]); len(words) > 0 { // a unit that is too long
				for j := range words {
					words[j].at += from
					words[j].fenced = s.fenced
				}
				places = append(words, places[i:]...)
				i = -1
				continue
			}
		}
		if tokens += n; tokens > s.limits.Tokens && len(fits) > 0 {
			break
		}
		from = p.at
		if last && p.at == len(text) {
			return boundary{at: p.at, fenced: p.fenced, title: title}, tokens, nil
		}
		if p.rank == rankH1 && tokens >= min(chapterTokens, s.limits.Tokens/2) {
			return boundary{at: p.at, fenced: p.fenced, title: title}, tokens, nil
		}
		fits = append(fits, fit{boundary: p, tokens: tokens})
		if title == "" {
			title = p.title
		}
	}
	best := choose(fits, text, s.limits.Tokens, len(s.window))
	return boundary{at: best.at, fenced: best.fenced, title: firstTitle(title, fits, best)}, best.tokens, nil
}

// fit is an end that a part can have.
type fit struct {
	boundary
	tokens int // up to it
}

// choose returns the best end in the second half of what fits.
func choose(fits []fit, text []byte, tokens, size int) fit {
	best, bestSum := fits[len(fits)-1], uint64(0)
	found := false
	for _, f := range fits {
		if 2*f.tokens < tokens && 2*f.at < size {
			continue
		}
		sum := sumAt(text[f.at:])
		if !found || f.rank > best.rank || f.rank == best.rank && sum < bestSum {
			best, bestSum, found = f, sum, true
		}
	}
	return best
}

// firstTitle returns title unless its heading follows the end.
func firstTitle(title string, fits []fit, end fit) string {
	for _, f := range fits {
		if f.title != "" && f.title == title {
			if f.at >= end.at {
				return ""
			}
			break
		}
	}
	return title
}

// sumAt hashes the beginning of a text.
func sumAt(text []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(text[:min(len(text), 48)]) // never fails
	return h.Sum64()
}

// scan returns the places of a window, in order: where lines and sentences end. The last one is the window's
// end if the text ends there, or if there is no other.
func scan(text []byte, fenced, last bool) (places []boundary) {
	add := func(p boundary) {
		if n := len(places); n > 0 && places[n-1].at == p.at {
			p.rank = max(p.rank, places[n-1].rank)
			places[n-1] = p
			return
		}
		places = append(places, p)
	}
	blank, begin, underline := true, true, false
	for at := 0; at < len(text); {
		end := lineEnd(text, at)
		line := bytes.TrimRight(text[at:end], " \t\r\n")
		p := boundary{at: at, rank: rankLine, fenced: fenced}
		switch {
		case fenced:
		case len(line) == 0:
			p.rank = rankWord
		case blank:
			p.rank = rankParagraph
		}
		level, title := heading(text, line, end, fenced)
		if level > 0 {
			p.rank, p.title = rankH1-rank(level-1), title
		} else if !fenced && isRule(line) {
			p.rank = rankRule
		}
		if !underline && (!begin || title != "") {
			add(p)
		}
		underline = level > 0 && line[0] != '#' && isUnderline(text, end)
		if isFence(line) {
			fenced = !fenced
		}
		if !fenced {
			for i := range sentenceEnds(line) {
				add(boundary{at: at + i, rank: rankSentence})
			}
		}
		blank, begin, at = len(line) == 0, false, end
	}
	if last || len(places) == 0 || len(places) == 1 && places[0].at == 0 {
		add(boundary{at: len(text), rank: rankLine, fenced: fenced})
		if !last { // the window may end within a character
			places[len(places)-1].at -= incomplete(text)
		}
	}
	return places
}

// lineEnd returns the start of the line behind the one at.
func lineEnd(text []byte, at int) int {
	if n := bytes.IndexByte(text[at:], '\n'); n >= 0 {
		return at + n + 1
	}
	return len(text)
}

// heading returns the level and the title of a heading of Markdown: "# Title", or a line that is underlined
// with = or -. The title or subject of a note is one of the first level. Level 0 is none.
func heading(text, line []byte, end int, fenced bool) (level int, title string) {
	if fenced || len(line) == 0 {
		return 0, ""
	}
	for level < len(line) && line[level] == '#' {
		level++
	}
	if level > 0 {
		if level > 6 || level == len(line) || line[level] != ' ' && line[level] != '\t' {
			return 0, ""
		}
		return level, string(bytes.Trim(line[level:], " \t#"))
	}
	for _, name := range []string{"Title: ", "Subject: "} { // notes and mails that follow each other
		if title, is := bytes.CutPrefix(line, []byte(name)); is {
			return 1, string(title)
		}
	}
	under := underOf(text, end)
	if len(under) < 3 || line[0] == ' ' || line[0] == '-' || line[0] == '=' || len(line) > 200 {
		return 0, ""
	}
	switch {
	case len(bytes.Trim(under, "=")) == 0:
		return 1, string(line)
	case len(bytes.Trim(under, "-")) == 0:
		return 2, string(line)
	}
	return 0, ""
}

// underOf returns the line at end, which follows another one.
func underOf(text []byte, end int) []byte {
	return bytes.TrimRight(text[end:lineEnd(text, end)], " \t\r\n")
}

// isUnderline reports whether the line at end can underline a heading.
func isUnderline(text []byte, end int) bool {
	under := underOf(text, end)
	return len(under) >= 3 && (len(bytes.Trim(under, "=")) == 0 || len(bytes.Trim(under, "-")) == 0)
}

// isRule reports whether a line divides a text: at least three of * - _, or a form feed.
func isRule(line []byte) bool {
	if bytes.HasPrefix(line, []byte("\f")) {
		return true
	}
	marks := bytes.ReplaceAll(line, []byte(" "), nil)
	return len(marks) >= 3 && bytes.IndexByte([]byte("*-_"), marks[0]) >= 0 && len(bytes.Trim(marks, string(marks[:1]))) == 0
}

// isFence reports whether a line begins or ends a block of code.
func isFence(line []byte) bool {
	line = bytes.TrimLeft(line, " ")
	return bytes.HasPrefix(line, []byte("```")) || bytes.HasPrefix(line, []byte("~~~"))
}

// sentenceEnds yields where the sentences of a line end, behind the space that follows, but not at the line's end.
func sentenceEnds(line []byte) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; i < len(line); {
			c, n := utf8.DecodeRune(line[i:])
			i += n
			end := i
			switch c {
			case '.', '!', '?', '…':
				for end < len(line) && bytes.IndexByte([]byte(`"')]`), line[end]) >= 0 {
					end++
				}
				if end >= len(line) || line[end] != ' ' {
					continue
				}
				end++
			case '。', '！', '？', '।', '۔', '።':
			default:
				continue
			}
			if end < len(line) && !yield(end) {
				return
			}
		}
	}
}

// wordBytes is about the length of the pieces of a text without sentences.
const wordBytes = 64

// wordsOf returns places within a unit that is too long: behind spaces, or between characters where there are
// none.
func wordsOf(unit []byte) (places []boundary) {
	for at := 0; len(unit)-at > wordBytes; {
		end := at + wordBytes
		if space := bytes.LastIndexAny(unit[at:end], " \t\n"); space > 0 {
			end = at + space + 1
		} else {
			for end > at+1 && !utf8.RuneStart(unit[end]) {
				end--
			}
		}
		places = append(places, boundary{at: end, rank: rankWord})
		at = end
	}
	return places
}

// incomplete returns how many bytes at the end of a window belong to a character that it does not hold.
func incomplete(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if c := text[len(text)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(text[len(text)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}
