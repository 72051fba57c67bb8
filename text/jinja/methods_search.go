package jinja

import (
	"strings"
	"unicode/utf8"
)

// stringStartsWith and stringEndsWith accept a string or a tuple of strings, and
// bounds.
func stringStartsWith(p *params, s string) (value, error) { return hasAffix(p, s, strings.HasPrefix) }

func stringEndsWith(p *params, s string) (value, error) { return hasAffix(p, s, strings.HasSuffix) }

// hasAffix compares the start or the end of s within the bounds.
func hasAffix(p *params, s string, has func(s, end string) bool) (value, error) {
	s, _, err := p.r.clipToBounds(s, p)
	if err != nil {
		return nil, err
	}
	options := []value{p.values[0]}
	if t, ok := p.values[0].(*tuple); ok {
		options = t.items
	}
	for _, option := range options {
		affix, ok := plain(option).(string)
		if !ok {
			return nil, runtimeErrorf("%s first arg must be str or a tuple of str, not %s", p.name, typeName(option))
		}
		if err := p.r.chargeScan(len(affix)); err != nil {
			return nil, err
		}
		if has(s, affix) {
			return true, nil
		}
	}
	return false, nil
}

// clipToBounds slices s with the bounds in parameters 1 and 2, in characters. skipped
// is the number of characters before the slice.
func (r *renderer) clipToBounds(s string, p *params) (part string, skipped int, err error) {
	low, high := p.orDefault(1, nil), p.orDefault(2, nil)
	if low == nil && high == nil {
		return s, 0, nil
	}
	n := runeCount(s)
	bounds, err := sliceRange(low, high, nil, n)
	if err != nil {
		return "", 0, err
	}
	v, err := r.sliceText(s, bounds)
	if err != nil {
		return "", 0, err
	}
	return v.(string), int(bounds.start), nil
}

// stringFind implements find, rfind, index and rindex. The name of the call selects
// one.
func stringFind(p *params, s string) (value, error) {
	sub, err := p.text(0, "")
	if err != nil {
		return nil, err
	}
	s, skipped, err := p.r.clipToBounds(s, p)
	if err != nil {
		return nil, err
	}
	if err := p.r.chargeScan(2 * (len(s) + len(sub))); err != nil {
		return nil, err
	}
	i := strings.Index(s, sub)
	if strings.HasPrefix(p.name, "r") {
		i = strings.LastIndex(s, sub)
	}
	if i < 0 {
		if strings.HasSuffix(p.name, "index") {
			return nil, runtimeErrorf("substring not found")
		}
		return int64(-1), nil
	}
	return int64(skipped + runeCount(s[:i])), nil
}

// stringCount counts the matches without overlap.
func stringCount(p *params, s string) (value, error) {
	sub, err := p.text(0, "")
	if err != nil {
		return nil, err
	}
	if s, _, err = p.r.clipToBounds(s, p); err != nil {
		return nil, err
	}
	return int64(strings.Count(s, sub)), p.r.chargeScan(len(s) + len(sub))
}

// stringJoin requires strings, as in Python. In contrast, the join filter accepts any
// values.
func stringJoin(p *params, s string) (value, error) {
	items, err := p.r.sequence(p.values[0])
	if err != nil {
		return nil, err
	}
	for i, item := range items {
		if _, ok := plain(item).(string); !ok {
			return nil, runtimeErrorf("sequence item %d: expected str instance, %s found", i, typeName(item))
		}
	}
	return p.r.joinText(items, s)
}

// stringSplit implements split and rsplit. The name of the call selects one.
func stringSplit(p *params, s string) (value, error) {
	limit, err := p.int(1, -1)
	if err != nil {
		return nil, err
	}
	fromEnd := p.name == "rsplit"
	if p.orDefault(0, nil) == nil {
		if err := p.r.chargeSlots(2 * countWords(s)); err != nil {
			return nil, err
		}
		return p.r.textList(splitSpace(s, limit, fromEnd), len(s))
	}
	separator, err := p.text(0, "")
	if err != nil {
		return nil, err
	}
	if separator == "" {
		return nil, runtimeErrorf("empty separator")
	}
	if err := p.r.chargeSlots(strings.Count(s, separator) + 1); err != nil {
		return nil, err
	}
	return p.r.textList(splitBy(s, separator, limit, fromEnd), len(s))
}

// textList returns a list of parts of a string of n bytes.
func (r *renderer) textList(parts []string, n int) (value, error) {
	if err := r.chargeSlots(2 * (len(parts) + 1)); err != nil {
		return nil, err
	}
	items := make([]value, len(parts))
	for i, part := range parts {
		items[i] = part
	}
	return &list{items}, r.chargeScan(n)
}

// splitBy splits s at a separator, at most limit times or, if limit is negative, at
// every separator. fromEnd counts from the end.
func splitBy(s, separator string, limit int, fromEnd bool) []string {
	// A string of n bytes has at most n separators.
	if limit < 0 || limit > len(s) {
		limit = len(s)
	}
	if !fromEnd {
		return strings.SplitN(s, separator, limit+1)
	}
	parts := strings.Split(s, separator)
	if extra := len(parts) - 1 - limit; extra > 0 {
		head := strings.Join(parts[:extra+1], separator)
		parts = append([]string{head}, parts[extra+1:]...)
	}
	return parts
}

// countWords counts the words that white space separates.
func countWords(s string) int {
	words, inside := 0, false
	for _, r := range s {
		space := isSpace(r)
		if !space && !inside {
			words++
		}
		inside = !space
	}
	return words
}

// splitSpace splits s at runs of white space, at most limit times unless limit is
// negative. The remainder preserves its inner white space.
func splitSpace(s string, limit int, fromEnd bool) []string {
	var parts []string
	if fromEnd {
		for s = strings.TrimRightFunc(s, isSpace); s != "" && limit != 0; limit-- {
			i := strings.LastIndexFunc(s, isSpace)
			if i < 0 {
				break
			}
			word := strings.TrimLeftFunc(s[i:], isSpace)
			parts = append(parts, word)
			s = strings.TrimRightFunc(s[:i], isSpace)
		}
		if s != "" {
			parts = append(parts, s)
		}
		for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
			parts[i], parts[j] = parts[j], parts[i]
		}
		return parts
	}
	for s = strings.TrimLeftFunc(s, isSpace); s != "" && limit != 0; limit-- {
		i := strings.IndexFunc(s, isSpace)
		if i < 0 {
			break
		}
		parts = append(parts, s[:i])
		s = strings.TrimLeftFunc(s[i:], isSpace)
	}
	if s != "" {
		parts = append(parts, s)
	}
	return parts
}

// stringSplitLines implements splitlines(). The parameter preserves the line ends.
func stringSplitLines(p *params, s string) (value, error) {
	lines, err := p.r.splitLines(s, p.flag(0))
	if err != nil {
		return nil, err
	}
	return p.r.textList(lines, len(s))
}

// splitLines splits at all line ends of Unicode, as str.splitlines does.
func (r *renderer) splitLines(s string, keepEnds bool) ([]string, error) {
	if err := r.chargeScan(len(s)); err != nil {
		return nil, err
	}
	var lines []string
	start := 0
	for i, c := range s {
		if !isLineEnd(c) || i < start { // i < start for the \n of a \r\n
			continue
		}
		next := i + utf8.RuneLen(c)
		if c == '\r' && strings.HasPrefix(s[next:], "\n") {
			next++
		}
		end := i
		if keepEnds {
			end = next
		}
		if err := r.chargeSlots(1); err != nil {
			return nil, err
		}
		lines = append(lines, s[start:end])
		start = next
	}
	if start < len(s) {
		lines = append(lines, s[start:])
	}
	return lines, nil
}

func isLineEnd(c rune) bool {
	switch c {
	case '\n', '\r', '\v', '\f', 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029:
		return true
	}
	return false
}

// stringPartition implements partition and rpartition. The name of the call selects
// one.
func stringPartition(p *params, s string) (value, error) {
	separator, err := p.text(0, "")
	if err != nil {
		return nil, err
	}
	if separator == "" {
		return nil, runtimeErrorf("empty separator")
	}
	i := strings.Index(s, separator)
	if p.name == "rpartition" {
		i = strings.LastIndex(s, separator)
	}
	items := []value{s, "", ""}
	switch {
	case i >= 0:
		items = []value{s[:i], separator, s[i+len(separator):]}
	case p.name == "rpartition":
		items = []value{"", "", s}
	}
	return &tuple{items: items}, p.r.chargeScan(len(s))
}
