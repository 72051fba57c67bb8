package constrain

import (
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"
)

// runeRange is a range of characters.
type runeRange struct{ low, high rune }

// runeSet is a set of characters: ascending ranges that do not touch each other.
type runeSet []runeRange

// anyRune are all characters. Surrogates are none.
var anyRune = runeSet{{0, 0xD7FF}, {0xE000, unicode.MaxRune}}

// newRuneSet returns the set of ranges in any order.
func newRuneSet(ranges ...runeRange) runeSet {
	slices.SortFunc(ranges, func(a, b runeRange) int { return int(a.low) - int(b.low) })
	var set runeSet
	for _, r := range ranges {
		if n := len(set); n > 0 && r.low <= set[n-1].high+1 {
			set[n-1].high = max(set[n-1].high, r.high)
		} else {
			set = append(set, r)
		}
	}
	return set
}

// single returns the set of one character.
func single(r rune) runeSet { return runeSet{{r, r}} }

// negate returns all other characters.
func (s runeSet) negate() runeSet { return anyRune.without(s) }

// without returns the characters that another set does not have.
func (s runeSet) without(other runeSet) runeSet {
	var left runeSet
	for _, r := range s {
		low := r.low
		for _, o := range other {
			if o.high < low || o.low > r.high {
				continue
			}
			if o.low > low {
				left = append(left, runeRange{low, o.low - 1})
			}
			low = o.high + 1
		}
		if low <= r.high {
			left = append(left, runeRange{low, r.high})
		}
	}
	return left
}

// tableSet returns the characters of a table of package unicode.
func tableSet(t *unicode.RangeTable) runeSet {
	var ranges []runeRange
	add := func(low, high, stride rune) {
		if stride == 1 {
			ranges = append(ranges, runeRange{low, high})
			return
		}
		for r := low; r <= high; r += stride {
			ranges = append(ranges, runeRange{r, r})
		}
	}
	for _, r := range t.R16 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	for _, r := range t.R32 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	return newRuneSet(ranges...).without(runeSet{{0xD800, 0xDFFF}})
}

// spelling is how characters are written.
type spelling struct {
	m      *machine
	quoted bool // in a string of JSON, each in one way: as itself where JSON allows it
	any    expr // one character; 0 until it is needed
}

// escaped are the characters that strings of JSON cannot have as themselves.
var escaped = newRuneSet(runeRange{0, 0x1F}, runeRange{'"', '"'}, runeRange{'\\', '\\'})

// anyRune returns an expression for any character.
func (s *spelling) anyRune() expr {
	if s.any == nothing {
		s.any = s.set(anyRune)
	}
	return s.any
}

// set returns an expression for one character of a set.
func (s *spelling) set(set runeSet) expr {
	var ways []expr
	if s.quoted {
		for _, r := range set.without(set.without(escaped)) {
			for c := r.low; c <= r.high; c++ {
				ways = append(ways, s.m.literal(quoteRune(c)))
			}
		}
		set = set.without(escaped)
	}
	var oneByte byteSet
	for _, r := range set {
		for c := r.low; c <= min(r.high, 0x7F); c++ {
			oneByte.add(byte(c))
		}
		if r.high > 0x7F {
			ways = s.m.utf8(ways, max(r.low, 0x80), r.high)
		}
	}
	return s.m.choice(append(ways, s.m.set(oneByte))...)
}

// text returns an expression for a text.
func (s *spelling) text(text string) expr {
	if s.quoted {
		return s.m.literal(string(appendQuoted(nil, text)))
	}
	return s.m.literal(text)
}

// utf8 appends expressions for the characters of a range, of two bytes or more each. It splits the range until all
// characters of a part have every combination of bytes in their positions.
func (m *machine) utf8(ways []expr, low, high rune) []expr {
	for _, last := range []rune{0x7FF, 0xD7FF, 0xFFFF} {
		if low <= last && high > last {
			return m.utf8(m.utf8(ways, low, last), last+1, high)
		}
	}
	if low <= high && low >= 0xD800 && high <= 0xDFFF {
		return ways // surrogates
	}
	if low < 0xE000 && low >= 0xD800 {
		low = 0xE000
	}
	for bits := 6; bits <= 18; bits += 6 {
		mask := rune(1)<<bits - 1
		if low&^mask == high&^mask {
			break
		}
		if low&mask != 0 {
			return m.utf8(m.utf8(ways, low, low|mask), low|mask+1, high)
		}
		if high&mask != mask {
			return m.utf8(m.utf8(ways, low, high&^mask-1), high&^mask, high)
		}
	}
	first, last := utf8.AppendRune(nil, low), utf8.AppendRune(nil, high)
	var parts []expr
	for i := range first {
		var set byteSet
		for b := int(first[i]); b <= int(last[i]); b++ {
			set.add(byte(b))
		}
		parts = append(parts, m.set(set))
	}
	return append(ways, m.sequence(parts...))
}

// quoteRune returns the escape of a character that strings of JSON cannot have as itself.
func quoteRune(r rune) string {
	switch r {
	case '"', '\\':
		return `\` + string(r)
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	case '\b':
		return `\b`
	case '\f':
		return `\f`
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// appendQuoted appends a text as strings of JSON have it here: each character in one way.
func appendQuoted(dst []byte, text string) []byte {
	for _, r := range text {
		if r < ' ' || r == '"' || r == '\\' {
			dst = append(dst, quoteRune(r)...)
		} else {
			dst = utf8.AppendRune(dst, r)
		}
	}
	return dst
}

// quote returns a text as a string of JSON.
func quote(text string) string { return `"` + string(appendQuoted(nil, text)) + `"` }
