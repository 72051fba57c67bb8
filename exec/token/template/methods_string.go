package template

import (
	"strings"
	"unicode"
)

// stringMethod implements s.name(args).
type stringMethod func(c *call, s string) (value, error)

var stringMethods = map[string]stringMethod{
	"capitalize":   mapText(capitalize),
	"casefold":     mapText(strings.ToLower),
	"center":       justify('^'),
	"count":        stringCount,
	"encode":       refuseEncode,
	"endswith":     stringEndsWith,
	"find":         stringFind,
	"index":        stringFind,
	"isalnum":      allRunes(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }),
	"isalpha":      allRunes(unicode.IsLetter),
	"isdecimal":    allRunes(unicode.IsDigit),
	"isdigit":      allRunes(unicode.IsDigit),
	"islower":      caseMethod(unicode.IsLower, unicode.IsUpper),
	"isnumeric":    allRunes(unicode.IsNumber),
	"isspace":      allRunes(isSpace),
	"isupper":      caseMethod(unicode.IsUpper, unicode.IsLower),
	"join":         stringJoin,
	"ljust":        justify('<'),
	"lower":        mapText(strings.ToLower),
	"lstrip":       strip(true, false),
	"partition":    stringPartition,
	"removeprefix": stringRemovePrefix,
	"removesuffix": stringRemoveSuffix,
	"replace":      stringReplace,
	"rfind":        stringFind,
	"rindex":       stringFind,
	"rjust":        justify('>'),
	"rpartition":   stringPartition,
	"rsplit":       stringSplit,
	"rstrip":       strip(false, true),
	"split":        stringSplit,
	"splitlines":   stringSplitLines,
	"startswith":   stringStartsWith,
	"strip":        strip(true, true),
	"swapcase":     mapText(swapCase),
	"title":        mapText(titleLetters),
	"upper":        mapText(upper),
	"zfill":        stringZeroFill,
}

func mapText(convert func(string) string) stringMethod {
	return func(c *call, s string) (value, error) { return mapped(c, s, convert) }
}

// titleLetters is str.title: every letter after a non-letter is a capital.
func titleLetters(s string) string {
	var b strings.Builder
	letter := false
	for _, r := range s {
		if letter {
			b.WriteRune(unicode.ToLower(r))
		} else {
			b.WriteRune(unicode.ToTitle(r))
		}
		letter = unicode.IsLetter(r)
	}
	return b.String()
}

func swapCase(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, s)
}

// allRunes makes a method that holds when s is not empty and each character passes.
func allRunes(holds func(rune) bool) stringMethod {
	return func(c *call, s string) (value, error) {
		if _, err := c.bind(0); err != nil {
			return nil, err
		}
		other := strings.ContainsFunc(s, func(r rune) bool { return !holds(r) })
		return s != "" && !other, c.r.scan(len(s))
	}
}

func caseMethod(want, other func(rune) bool) stringMethod {
	test := testCase(want, other)
	return func(c *call, s string) (value, error) { return test(c, s) }
}

func strip(left, right bool) stringMethod {
	return func(c *call, s string) (value, error) {
		p, err := c.bind(0, "chars")
		if err != nil {
			return nil, err
		}
		if p.or(0, nil) != nil {
			chars, err := p.text(0, "")
			if err != nil {
				return nil, err
			}
			return c.r.trim(s, chars, left, right)
		}
		if err := c.r.scan(len(s)); err != nil {
			return nil, err
		}
		if left {
			s = strings.TrimLeftFunc(s, isSpace)
		}
		if right {
			s = strings.TrimRightFunc(s, isSpace)
		}
		return s, nil
	}
}

// justify makes ljust, rjust or center.
func justify(align byte) stringMethod {
	return func(c *call, s string) (value, error) {
		p, err := c.bind(1, "width", "fillchar")
		if err != nil {
			return nil, err
		}
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
		return c.r.pad(s, width, []rune(fill)[0], align)
	}
}

// pad fills s up to width characters; align is <, > or ^ as in format directives.
func (r *run) pad(s string, width int, fill rune, align byte) (string, error) {
	missing := width - runeCount(s)
	if err := r.scan(len(s)); err != nil || missing <= 0 {
		return s, err
	}
	if missing > maxOutput {
		return "", r.text(-1)
	}
	if err := r.text(len(s) + missing*4); err != nil {
		return "", err
	}
	left := 0
	switch align {
	case '>':
		left = missing
	case '^': // Python puts the odd blank left only where the width is odd too
		left = missing/2 + missing&width&1
	}
	filler := string(fill)
	return strings.Repeat(filler, left) + s + strings.Repeat(filler, missing-left), nil
}

func stringZeroFill(c *call, s string) (value, error) {
	p, err := c.bind(1, "width")
	if err != nil {
		return nil, err
	}
	width, err := p.int(0, 0)
	if err != nil {
		return nil, err
	}
	sign := ""
	if signAt(s, 0) != 0 {
		sign, s = s[:1], s[1:]
	}
	s, err = c.r.pad(s, width-len(sign), '0', '>')
	return sign + s, err
}

func stringReplace(c *call, s string) (value, error) {
	p, err := c.bind(2, "old", "new", "count")
	if err != nil {
		return nil, err
	}
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
	return c.r.replace(s, old, replacement, count)
}

func stringRemovePrefix(c *call, s string) (value, error) {
	return cutEnd(c, s, strings.TrimPrefix)
}

func stringRemoveSuffix(c *call, s string) (value, error) {
	return cutEnd(c, s, strings.TrimSuffix)
}

func cutEnd(c *call, s string, cut func(s, end string) string) (value, error) {
	p, err := c.bind(1, "affix")
	if err != nil {
		return nil, err
	}
	affix, err := p.text(0, "")
	return cut(s, affix), err
}

func refuseEncode(*call, string) (value, error) {
	return nil, &Error{Kind: ErrUnsupported, Construct: "str.encode", Reason: "templates handle text only"}
}
