package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The case mappings of Python's str are those of Unicode for whole texts: a character can become several, and a capital
// sigma at the end of a word becomes another letter than elsewhere.

// caseGrowth bounds how many times longer a text becomes.
const caseGrowth = 3

// upper implements str.upper.
func upper(s string) string { return mapRunes(s, func(_ int, r rune) string { return upperRune(r) }) }

// lower implements str.lower.
func lower(s string) string {
	return mapRunes(s, func(at int, r rune) string { return lowerRune(s, at, r) })
}

// caseFold implements str.casefold.
func caseFold(s string) string {
	return mapRunes(s, func(_ int, r rune) string {
		if folded, ok := foldText[r]; ok {
			return folded
		}
		return lowerRune("", 0, r)
	})
}

// titleLetters implements str.title: a letter that does not follow one becomes a capital.
func titleLetters(s string) string {
	inWord := false
	return mapRunes(s, func(at int, r rune) string {
		begins := !inWord
		if inWord = isCased(r); begins {
			return titleRune(r)
		}
		return lowerRune(s, at, r)
	})
}

// capitalize implements str.capitalize.
func capitalize(s string) string {
	return mapRunes(s, func(at int, r rune) string {
		if at == 0 {
			return titleRune(r)
		}
		return lowerRune(s, at, r)
	})
}

// swapCase implements str.swapcase.
func swapCase(s string) string {
	return mapRunes(s, func(at int, r rune) string {
		switch {
		case unicode.In(r, unicode.Lu, unicode.Other_Uppercase):
			return lowerRune(s, at, r)
		case unicode.In(r, unicode.Ll, unicode.Other_Lowercase):
			return upperRune(r)
		}
		return string(r)
	})
}

// titleWords implements Jinja's title filter: a word starts after white space, a hyphen or an opening bracket, but not
// after an apostrophe.
func titleWords(s string) string {
	separates := func(r rune) bool { return isSpace(r) || strings.ContainsRune("-({[<", r) }
	var b strings.Builder
	for s != "" {
		end := strings.IndexFunc(s, separates)
		switch _, first := utf8.DecodeRuneInString(s); {
		case end == 0:
			b.WriteString(s[:first])
			s = s[first:]
			continue
		case end < 0:
			end = len(s)
			fallthrough
		default:
			b.WriteString(upper(s[:first]))
			b.WriteString(lower(s[first:end]))
			s = s[end:]
		}
	}
	return b.String()
}

// mapRunes replaces each character of a text.
func mapRunes(s string, with func(at int, r rune) string) string {
	var b strings.Builder
	for at, r := range s {
		b.WriteString(with(at, r))
	}
	return b.String()
}

func upperRune(r rune) string {
	if text, ok := upperText[r]; ok {
		return text
	}
	return string(unicode.ToUpper(r))
}

func titleRune(r rune) string {
	if text, ok := titleText[r]; ok {
		return text
	}
	if text, ok := upperText[r]; ok {
		return text
	}
	return string(unicode.ToTitle(r))
}

// lowerRune returns the small letter of the character at an offset of a text.
func lowerRune(s string, at int, r rune) string {
	switch r {
	case 'İ': // the one capital whose small letter is two characters
		return "i\u0307"
	case 'Σ':
		if endsWord(s, at) {
			return "ς"
		}
	}
	return string(unicode.ToLower(r))
}

// endsWord reports whether a letter is before the one at an offset and none behind it, apart from what case ignores.
func endsWord(s string, at int) bool {
	if s == "" {
		return false
	}
	before := strings.TrimRightFunc(s[:at], ignoredByCase)
	after := strings.TrimLeftFunc(s[at+len("Σ"):], ignoredByCase)
	last, _ := utf8.DecodeLastRuneInString(before)
	next, _ := utf8.DecodeRuneInString(after)
	return before != "" && isCased(last) && (after == "" || !isCased(next))
}

// isCased reports whether a character has Unicode's property Cased.
func isCased(r rune) bool {
	return unicode.In(r, unicode.Lu, unicode.Ll, unicode.Lt, unicode.Other_Lowercase, unicode.Other_Uppercase)
}

// ignoredByCase reports whether a character has Unicode's property Case_Ignorable.
func ignoredByCase(r rune) bool {
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) ||
		strings.ContainsRune("'.:··՟״‘’․‧︓﹒﹕＇．：", r)
}
