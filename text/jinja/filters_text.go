package jinja

import (
	"net/url"
	"strings"
	"unicode"
)

// textOperand returns the text of v. String filters accept values of any type.
func textOperand(p *params, v value) (string, error) {
	s, err := p.r.str(v)
	if err != nil {
		return "", err
	}
	return s, p.r.chargeScan(len(s))
}

// mapString implements a filter without parameters that converts a string.
func mapString(p *params, v value, convert func(string) string) (value, error) {
	s, err := textOperand(p, v)
	if err != nil {
		return nil, err
	}
	// A change of case may lengthen a character.
	if err := p.r.chargeString(caseGrowth * len(s)); err != nil {
		return nil, err
	}
	return convert(s), nil
}

// Filters that convert the entire text.
func filterUpper(p *params, v value) (value, error)      { return mapString(p, v, upper) }
func filterLower(p *params, v value) (value, error)      { return mapString(p, v, lower) }
func filterCapitalize(p *params, v value) (value, error) { return mapString(p, v, capitalize) }
func filterTitle(p *params, v value) (value, error)      { return mapString(p, v, titleWords) }

// filterString returns the text of v. Markup stays markup.
func filterString(p *params, v value) (value, error) {
	if m, ok := v.(markup); ok {
		return m, nil
	}
	return p.r.str(v)
}

// filterSafe marks text as markup. Markup differs from plain text only in additions.
func filterSafe(p *params, v value) (value, error) {
	s, err := p.r.str(v)
	return markup(s), err
}

// filterEscape escapes text for HTML. It does not escape markup again.
func filterEscape(p *params, v value) (value, error) {
	if m, ok := v.(markup); ok && p.name != "forceescape" {
		return m, nil
	}
	s, err := textOperand(p, v)
	if err != nil {
		return nil, err
	}
	if err := p.r.chargeString(5 * len(s)); err != nil {
		return nil, err
	}
	return escapeHTML(s), nil
}

// filterTrim removes white space, or the characters of a set, from both ends.
func filterTrim(p *params, v value) (value, error) {
	s, err := textOperand(p, v)
	if err != nil {
		return nil, err
	}
	if p.orDefault(0, nil) == nil {
		return strings.TrimFunc(s, isSpace), nil
	}
	chars, err := p.text(0, "")
	if err != nil {
		return nil, err
	}
	return p.r.trim(s, chars, true, true)
}

// trim removes the characters of chars from the ends of s.
func (r *renderer) trim(s, chars string, left, right bool) (string, error) {
	if len(chars) > maxTrimSet {
		return "", limitErrorf("the character set of strip exceeds %d bytes", maxTrimSet)
	}
	// The search in the set takes time for every character of s.
	if err := r.chargeSteps(1 + len(s)/bytesPerStep*(1+len(chars)/8)); err != nil {
		return "", err
	}
	if left {
		s = strings.TrimLeft(s, chars)
	}
	if right {
		s = strings.TrimRight(s, chars)
	}
	return s, nil
}

// filterReplace converts its operands to text. In contrast, str.replace requires
// strings.
func filterReplace(p *params, v value) (value, error) {
	s, err := textOperand(p, v)
	if err != nil {
		return nil, err
	}
	old, err := p.r.str(p.values[0])
	if err != nil {
		return nil, err
	}
	replacement, err := p.r.str(p.values[1])
	if err != nil {
		return nil, err
	}
	count := -1
	if p.orDefault(2, nil) != nil {
		if count, err = p.int(2, -1); err != nil {
			return nil, err
		}
	}
	return p.r.replace(s, old, replacement, count)
}

// replace implements str.replace. It replaces at most count matches, or all if count is
// negative.
func (r *renderer) replace(s, old, replacement string, count int) (string, error) {
	if err := r.chargeScan(len(s) + len(old)); err != nil {
		return "", err
	}
	n := strings.Count(s, old)
	if count >= 0 && count < n {
		n = count
	}
	if grown := len(replacement) - len(old); grown > 0 && n > maxOutput/grown {
		return "", r.chargeString(-1)
	}
	if err := r.chargeString(len(s) + n*max(len(replacement)-len(old), 0)); err != nil {
		return "", err
	}
	return strings.Replace(s, old, replacement, n), nil
}

// filterIndent indents all lines but the first. The parameters first and blank include
// the first line and empty lines.
func filterIndent(p *params, v value) (value, error) {
	if u, ok := v.(*undefined); ok {
		return nil, u.err()
	}
	s, ok := plain(v).(string)
	if !ok {
		return nil, operandError("+", v, "\n")
	}
	indent, err := indentText(p.orDefault(0, int64(4)))
	if err != nil {
		return nil, err
	}
	lines, err := p.r.splitLines(s+"\n", false)
	if err != nil {
		return nil, err
	}
	if err := p.r.chargeString(len(s) + len(lines)*(len(indent)+1)); err != nil {
		return nil, err
	}
	for i, line := range lines {
		if i == 0 && p.flag(1) || i > 0 && (line != "" || p.flag(2)) {
			lines[i] = indent + line
		}
	}
	return strings.Join(lines, "\n"), nil
}

// indentText returns an indentation, which width defines as a string or as a number of
// spaces.
func indentText(width value) (string, error) {
	if s, ok := plain(width).(string); ok && len(s) <= maxPadding {
		return s, nil
	}
	n, _, isInt, ok := number(width)
	if !ok || !isInt || n > maxPadding {
		return "", runtimeErrorf("the width of an indentation must be a string or a number up to %d", maxPadding)
	}
	return strings.Repeat(" ", int(max(n, 0))), nil
}

// filterCenter pads with spaces on both sides.
func filterCenter(p *params, v value) (value, error) {
	s, err := textOperand(p, v)
	if err != nil {
		return nil, err
	}
	width, err := p.int(0, 80)
	if err != nil {
		return nil, err
	}
	return p.r.pad(s, width, ' ', '^')
}

// filterTruncate truncates text that exceeds the length by more than the leeway. It
// truncates at a space unless killwords is set.
func filterTruncate(p *params, v value) (value, error) {
	limit, err := p.int(0, 255)
	if err != nil {
		return nil, err
	}
	end, err := p.text(2, "...")
	if err != nil {
		return nil, err
	}
	leeway := 5
	if p.orDefault(3, nil) != nil {
		if leeway, err = p.int(3, 5); err != nil {
			return nil, err
		}
	}
	s, ok := plain(v).(string)
	if n, hasLength := length(v); !ok && hasLength && n <= limit+leeway {
		return v, nil
	} else if !ok {
		return nil, runtimeErrorf("truncate: the value must be str, not %s", typeName(v))
	}
	if err := p.r.chargeScan(len(s)); err != nil {
		return nil, err
	}
	if limit < runeCount(end) || leeway < 0 {
		return nil, runtimeErrorf("expected length >= %d and leeway >= 0", runeCount(end))
	}
	if runeCount(s) <= limit+leeway {
		return s, nil
	}
	s = s[:runeOffset(s, limit-runeCount(end))]
	if i := strings.LastIndexByte(s, ' '); i >= 0 && !p.flag(1) {
		s = s[:i]
	}
	return s + end, p.r.chargeString(len(s) + len(end))
}

// filterWordCount counts runs of letters, digits and underscores.
func filterWordCount(p *params, v value) (value, error) {
	s, err := textOperand(p, v)
	words, inside := int64(0), false
	for _, r := range s {
		letter := r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r)
		if letter && !inside {
			words++
		}
		inside = letter
	}
	return words, err
}

// filterURLEncode escapes text for the path of a URL.
func filterURLEncode(p *params, v value) (value, error) {
	if _, isText := plain(v).(string); !isText && isIterable(v) {
		return nil, &Error{Kind: ErrUnsupported, Construct: "filter 'urlencode'", Reason: "urlencode accepts only strings and numbers"}
	}
	return mapString(p, v, func(s string) string {
		// url.QueryEscape encodes spaces and slashes differently from Python's quote.
		return strings.NewReplacer("+", "%20", "%2F", "/", "%7E", "~").Replace(url.QueryEscape(s))
	})
}

// filterFormat applies the % operator to its arguments.
func filterFormat(p *params, v value) (value, error) {
	s, err := textOperand(p, v)
	if err != nil {
		return nil, err
	}
	if len(p.keywords) == 0 {
		return p.r.formatPercent(s, &tuple{items: p.args})
	}
	if len(p.args) > 0 {
		return nil, runtimeErrorf("can't handle positional and keyword arguments at the same time")
	}
	named := newDict()
	for _, kw := range p.keywords {
		if err := named.set(kw.name, kw.value); err != nil {
			return nil, err
		}
	}
	return p.r.formatPercent(s, named)
}
