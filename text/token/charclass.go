package token

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// class is a set of groups of Unicode characters. Every character is in exactly one
// group. The groups are as fine as the regular expressions of pre-tokenizers require.
type class uint16

const (
	classUpper    class = 1 << iota // Lu, Lt
	classLower                      // Ll
	classUncased                    // Lm, Lo
	classMark                       // M
	classDecimal                    // Nd
	classNumeral                    // Nl, No
	classPunct                      // P
	classSymbol                     // S
	classSpace                      // White_Space except line ends
	classLineEnd                    // \r \n
	classOther                      // controls, unassigned characters, invalid UTF-8
	classBits     = iota
	classAll      = 1<<classBits - 1
	classLetter   = classUpper | classLower | classUncased
	classNumber   = classDecimal | classNumeral
	classAnySpace = classSpace | classLineEnd
)

// classTableSize covers the two planes with most text: the Basic Multilingual Plane and
// the plane with emoji. classOf searches the range tables for other characters, which
// are rare ideographs.
const classTableSize = 0x20000

// classTable[r] is the bit number of the group of r.
var classTable = sync.OnceValue(func() *[classTableSize]uint8 {
	table := new([classTableSize]uint8)
	for r := range table {
		table[r] = classBits - 1
	}
	for _, group := range classGroups {
		for _, category := range group.tables {
			eachRune(category, func(r rune) { table[r] = group.bit })
		}
	}
	table['\r'], table['\n'] = 9, 9
	return table
})

// classGroups lists the groups by bit number. White space is last because it overrides
// other groups: the line separators are also Zl and Zp, and the tab is also Cc.
var classGroups = []struct {
	bit    uint8
	tables []*unicode.RangeTable
}{
	{0, []*unicode.RangeTable{unicode.Lu, unicode.Lt}},
	{1, []*unicode.RangeTable{unicode.Ll}},
	{2, []*unicode.RangeTable{unicode.Lm, unicode.Lo}},
	{3, []*unicode.RangeTable{unicode.M}},
	{4, []*unicode.RangeTable{unicode.Nd}},
	{5, []*unicode.RangeTable{unicode.Nl, unicode.No}},
	{6, []*unicode.RangeTable{unicode.P}},
	{7, []*unicode.RangeTable{unicode.S}},
	{8, []*unicode.RangeTable{unicode.White_Space}},
}

// eachRune calls f for the members of a table below classTableSize.
func eachRune(t *unicode.RangeTable, f func(rune)) {
	for _, span := range t.R16 {
		for r := rune(span.Lo); r <= rune(span.Hi); r += rune(span.Stride) {
			f(r)
		}
	}
	for _, span := range t.R32 {
		for r := rune(span.Lo); r <= rune(span.Hi) && r < classTableSize; r += rune(span.Stride) {
			f(r)
		}
	}
}

// notRune represents a byte that is not valid UTF-8. It is in no range and has the
// class classOther.
const notRune rune = -1

// classOf returns the group of a character.
func classOf(r rune) class {
	if uint32(r) < classTableSize {
		return 1 << classTable()[r]
	}
	for _, group := range classGroups {
		if unicode.In(r, group.tables...) {
			return 1 << group.bit
		}
	}
	return classOther
}

// decode returns the character at a position and its width in bytes. It returns notRune
// for an invalid byte.
func decode(text string, at int) (r rune, width int) {
	if c := text[at]; c < utf8.RuneSelf {
		return rune(c), 1
	}
	r, width = utf8.DecodeRuneInString(text[at:])
	if r == utf8.RuneError && width == 1 {
		return notRune, 1
	}
	return r, width
}

// charSet is the set of characters that one item of an expression matches.
type charSet struct {
	ascii   [2]uint64 // members below 0x80, after negation
	classes class
	ranges  []runeRange
	negated bool
}

type runeRange struct{ low, high rune } // inclusive bounds

// newCharSet builds a set of classes and ranges.
func newCharSet(classes class, ranges []runeRange, negated bool) *charSet {
	s := &charSet{classes: classes, ranges: ranges, negated: negated}
	for r := range rune(utf8.RuneSelf) {
		if s.listed(r) != negated {
			s.ascii[r>>6] |= 1 << (r & 63)
		}
	}
	return s
}

// has reports whether the set contains r.
func (s *charSet) has(r rune) bool {
	if uint32(r) < utf8.RuneSelf {
		return s.ascii[r>>6]>>(r&63)&1 != 0
	}
	return s.listed(r) != s.negated
}

// listed reports whether a class or a range of the set contains r, before negation.
func (s *charSet) listed(r rune) bool {
	if s.classes != 0 && classOf(r)&s.classes != 0 {
		return true
	}
	for _, span := range s.ranges {
		if r >= span.low && r <= span.high {
			return true
		}
	}
	return false
}

// run returns the end and the length in characters of the longest run of members at a
// position, with at most limit characters.
func (s *charSet) run(text string, at, limit int) (end, count int) {
	for at < len(text) && count < limit {
		r, width := decode(text, at)
		if !s.has(r) {
			break
		}
		at += width
		count++
	}
	return at, count
}
