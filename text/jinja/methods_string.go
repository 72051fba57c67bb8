package jinja

import (
	"strings"
	"unicode"
)

// stringMethod implements a method of str.
type stringMethod = builtin[string, value]

// stringMethods holds the methods of str except format.
var stringMethods = map[string]stringMethod{
	"capitalize":   mapMethod(capitalize),
	"casefold":     mapMethod(caseFold),
	"center":       justify('^'),
	"count":        withParams(stringCount, "sub", "start?", "end?"),
	"encode":       withAnyArgs(unsupportedEncode),
	"endswith":     withParams(stringEndsWith, "affix", "start?", "end?"),
	"find":         withParams(stringFind, "sub", "start?", "end?"),
	"index":        withParams(stringFind, "sub", "start?", "end?"),
	"isalnum":      allRunes(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }),
	"isalpha":      allRunes(unicode.IsLetter),
	"isdecimal":    allRunes(unicode.IsDigit),
	"isdigit":      allRunes(unicode.IsDigit),
	"islower":      caseMethod(unicode.IsLower, unicode.IsUpper),
	"isnumeric":    allRunes(unicode.IsNumber),
	"isspace":      allRunes(isSpace),
	"isupper":      caseMethod(unicode.IsUpper, unicode.IsLower),
	"join":         withParams(stringJoin, "iterable"),
	"ljust":        justify('<'),
	"lower":        mapMethod(lower),
	"lstrip":       strip(true, false),
	"partition":    withParams(stringPartition, "sep"),
	"removeprefix": withParams(stringRemovePrefix, "affix"),
	"removesuffix": withParams(stringRemoveSuffix, "affix"),
	"replace":      withParams(stringReplace, "old", "new", "count?"),
	"rfind":        withParams(stringFind, "sub", "start?", "end?"),
	"rindex":       withParams(stringFind, "sub", "start?", "end?"),
	"rjust":        justify('>'),
	"rpartition":   withParams(stringPartition, "sep"),
	"rsplit":       withParams(stringSplit, "sep?", "maxsplit?"),
	"rstrip":       strip(false, true),
	"split":        withParams(stringSplit, "sep?", "maxsplit?"),
	"splitlines":   withParams(stringSplitLines, "keepends?"),
	"startswith":   withParams(stringStartsWith, "affix", "start?", "end?"),
	"strip":        strip(true, true),
	"swapcase":     mapMethod(swapCase),
	"title":        mapMethod(titleLetters),
	"upper":        mapMethod(upper),
	"zfill":        withParams(stringZeroFill, "width"),
}

// mapMethod returns a method without parameters that converts the string.
func mapMethod(convert func(string) string) stringMethod {
	return withParams(func(p *params, s string) (value, error) { return mapString(p, s, convert) })
}

// allRunes returns a method that reports whether s is not empty and holds returns true
// for every character.
func allRunes(holds func(rune) bool) stringMethod {
	return withParams(func(p *params, s string) (value, error) {
		other := strings.ContainsFunc(s, func(r rune) bool { return !holds(r) })
		return s != "" && !other, p.r.chargeScan(len(s))
	})
}

// caseMethod returns islower or isupper.
func caseMethod(want, other func(rune) bool) stringMethod {
	test := caseTest(want, other)
	return withParams(func(p *params, s string) (value, error) { return test.run(p, s) })
}

// strip returns the implementation of strip, lstrip or rstrip. It removes white space
// or the characters of a set.
func strip(left, right bool) stringMethod {
	return withParams(func(p *params, s string) (value, error) {
		if p.orDefault(0, nil) != nil {
			chars, err := p.text(0, "")
			if err != nil {
				return nil, err
			}
			return p.r.trim(s, chars, left, right)
		}
		if err := p.r.chargeScan(len(s)); err != nil {
			return nil, err
		}
		if left {
			s = strings.TrimLeftFunc(s, isSpace)
		}
		if right {
			s = strings.TrimRightFunc(s, isSpace)
		}
		return s, nil
	}, "chars?")
}

// justify returns the implementation of ljust, rjust or center.
func justify(align byte) stringMethod {
	return withParams(func(p *params, s string) (value, error) {
		width, err := p.int(0, 0)
		if err != nil {
			return nil, err
		}
		fill, err := p.text(1, " ")
		if err != nil {
			return nil, err
		}
		if runeCount(fill) != 1 {
			return nil, runtimeErrorf("The fill character must be exactly one character long")
		}
		return p.r.pad(s, width, []rune(fill)[0], align)
	}, "width", "fillchar?")
}

// pad pads s to width characters. align is <, > or ^ as in format directives.
func (r *renderer) pad(s string, width int, fill rune, align byte) (string, error) {
	missing := width - runeCount(s)
	if err := r.chargeScan(len(s)); err != nil || missing <= 0 {
		return s, err
	}
	if missing > maxOutput {
		return "", r.chargeString(-1)
	}
	if err := r.chargeString(len(s) + missing*4); err != nil {
		return "", err
	}
	left := 0
	switch align {
	case '>':
		left = missing
	// As in Python, the extra character of odd padding is on the left only if the width
	// is odd.
	case '^':
		left = missing/2 + missing&width&1
	}
	filler := string(fill)
	return strings.Repeat(filler, left) + s + strings.Repeat(filler, missing-left), nil
}

// stringZeroFill inserts zeros between the sign and the digits.
func stringZeroFill(p *params, s string) (value, error) {
	width, err := p.int(0, 0)
	if err != nil {
		return nil, err
	}
	sign := ""
	if signAt(s, 0) != 0 {
		sign, s = s[:1], s[1:]
	}
	s, err = p.r.pad(s, width-len(sign), '0', '>')
	return sign + s, err
}

// stringReplace implements str.replace, which requires strings.
func stringReplace(p *params, s string) (value, error) {
	old, err := p.text(0, "")
	if err != nil {
		return nil, err
	}
	replacement, err := p.text(1, "")
	if err != nil {
		return nil, err
	}
	count, err := p.int(2, -1)
	if err != nil {
		return nil, err
	}
	return p.r.replace(s, old, replacement, count)
}

// stringRemovePrefix implements str.removeprefix.
func stringRemovePrefix(p *params, s string) (value, error) {
	affix, err := p.text(0, "")
	return strings.TrimPrefix(s, affix), err
}

// stringRemoveSuffix implements str.removesuffix.
func stringRemoveSuffix(p *params, s string) (value, error) {
	affix, err := p.text(0, "")
	return strings.TrimSuffix(s, affix), err
}

// unsupportedEncode rejects str.encode, because templates have no bytes type.
func unsupportedEncode(*params, string) (value, error) {
	return nil, &Error{Kind: ErrUnsupported, Construct: "str.encode", Reason: "templates cannot process bytes"}
}
