package jinja

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// formatBraces implements str.format with the fields {}, {0}, {name}, {0.attr} and
// {0[key]}, the conversions !r and !s, and format specs. The sandbox also checks the
// attributes of a field.
func (r *renderer) formatBraces(s string, args []value, keywords []keyword) (value, error) {
	f := &braceFormatter{r: r, args: args, keywords: keywords}
	text, err := f.format(s, 0)
	return text, err
}

// braceFormatter expands one format string and the format specs inside it.
type braceFormatter struct {
	r        *renderer
	args     []value
	keywords []keyword
	next     int // index of the argument for the next empty {}
}

// format expands s. A format spec may contain fields without specs.
func (f *braceFormatter) format(s string, depth int) (string, error) {
	if depth > 2 {
		return "", runtimeErrorf("Max string recursion exceeded")
	}
	var b strings.Builder
	for s != "" {
		i := strings.IndexAny(s, "{}")
		if i < 0 {
			i = len(s)
		}
		text := s[:i]
		s = s[i:]
		switch {
		case s == "":
		case strings.HasPrefix(s, "{{") || strings.HasPrefix(s, "}}"):
			text += s[:1]
			s = s[2:]
		case s[0] == '}':
			return "", runtimeErrorf("Single '}' encountered in format string")
		default:
			end := fieldEnd(s)
			if end < 0 {
				return "", runtimeErrorf("expected '}' before end of string")
			}
			field, err := f.field(s[1:end], depth)
			if err != nil {
				return "", err
			}
			text += field
			s = s[end+1:]
		}
		if b.Len()+len(text) > maxOutput {
			return "", f.r.chargeString(-1)
		}
		if err := f.r.chargeBytes(len(text)); err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// fieldEnd returns the position of the brace that closes the brace at the start of s,
// or -1.
func fieldEnd(s string) int {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// field formats one replacement field: name!conversion:spec.
func (f *braceFormatter) field(text string, depth int) (string, error) {
	name, directive, _ := strings.Cut(text, ":")
	name, conversion, converted := strings.Cut(name, "!")
	v, err := f.lookup(name)
	if err != nil {
		return "", err
	}
	if directive, err = f.format(directive, depth+1); err != nil {
		return "", err
	}
	if converted {
		v, err = f.applyConversion(v, conversion)
		if err != nil {
			return "", err
		}
	}
	return f.r.formatSpec(v, directive)
}

// applyConversion applies !s, !r or !a.
func (f *braceFormatter) applyConversion(v value, conversion string) (value, error) {
	switch conversion {
	case "s":
		return f.r.str(v)
	case "r", "a":
		w := &reprWriter{m: f.r.meter}
		err := w.repr(v, 0)
		return w.b.String(), err
	}
	return nil, runtimeErrorf("Unknown conversion specifier '%s'", conversion)
}

// lookup returns the value of a field name with its attributes and indexes.
func (f *braceFormatter) lookup(name string) (value, error) {
	end := strings.IndexAny(name, ".[")
	if end < 0 {
		end = len(name)
	}
	v, err := f.argument(name[:end])
	for path := name[end:]; err == nil && path != ""; {
		if path[0] == '[' {
			key, rest, closed := strings.Cut(path[1:], "]")
			if !closed {
				return nil, runtimeErrorf("Missing ']' in format string")
			}
			var index value = key
			if i, convErr := strconv.ParseUint(key, 10, 31); convErr == nil {
				index = int64(i)
			}
			v, err = f.r.subscript(v, index)
			path = rest
			continue
		}
		attr := path[1:]
		if end = strings.IndexAny(attr, ".["); end < 0 {
			end = len(attr)
		}
		v, err = f.r.attribute(v, attr[:end])
		path = attr[end:]
	}
	return v, err
}

// argument returns the value of the first part of a field name: an index, a keyword or,
// if empty, the next argument.
func (f *braceFormatter) argument(name string) (value, error) {
	index, err := strconv.ParseUint(name, 10, 31)
	if name == "" {
		index = uint64(f.next)
		f.next++
	} else if err != nil {
		for _, kw := range f.keywords {
			if kw.name == name {
				return kw.value, nil
			}
		}
		return nil, runtimeErrorf("%s", quote(name))
	}
	if index >= uint64(len(f.args)) {
		return nil, runtimeErrorf("Replacement index %d out of range for positional args tuple", index)
	}
	return f.args[index], nil
}

// formatSpec implements Python's format(v, directive).
func (r *renderer) formatSpec(v value, directive string) (string, error) {
	if directive == "" {
		return r.str(v)
	}
	sp, err := parseSpec(directive)
	if err != nil {
		return "", err
	}
	if s, ok := plain(v).(string); ok && (sp.verb == 's' || sp.verb == 0) {
		if sp.align == 0 {
			sp.align = '<'
		}
		return r.formatText(sp, s)
	}
	i, f, isInt, ok := number(v)
	if !ok {
		return "", runtimeErrorf("unsupported format string passed to %s.__format__", typeName(v))
	}
	if sp.align == 0 {
		sp.align = '>'
	}
	switch sp.verb {
	case 0, 'd', 'x', 'X', 'o', 'b', 'n':
		if isInt {
			return r.formatInteger(sp, i)
		}
		if sp.verb == 0 && sp.precision < 0 {
			return r.padNumber(sp, f < 0, "", groupThousands(strings.TrimPrefix(formatFloat(f), "-"), sp.comma))
		}
		if sp.verb == 0 {
			return r.formatUntyped(sp, f)
		}
	case 'e', 'E', 'f', 'F', 'g', 'G', '%':
		return r.formatReal(sp, f)
	}
	return "", runtimeErrorf("Unknown format code '%c' for object of type '%s'", sp.verb, typeName(v))
}

// parseSpec parses [[fill]align][sign][#][0][width][,][.precision][type].
func parseSpec(s string) (spec, error) {
	sp := spec{fill: ' ', precision: -1}
	_, n := utf8.DecodeRuneInString(s)
	if n < len(s) && strings.IndexByte("<>^=", s[n]) >= 0 {
		sp.fill, _ = utf8.DecodeRuneInString(s)
		sp.align, s = s[n], s[n+1:]
	} else if strings.IndexByte("<>^=", s[0]) >= 0 {
		sp.align, s = s[0], s[1:]
	}
	take := func(set string) byte {
		if s == "" || strings.IndexByte(set, s[0]) < 0 {
			return 0
		}
		c := s[0]
		s = s[1:]
		return c
	}
	sp.sign = take("+- ")
	sp.alternate = take("#") != 0
	if take("0") != 0 && sp.align == 0 {
		sp.fill, sp.align = '0', '='
	}
	width := func() (int, error) {
		n := countDigits(s)
		value, err := strconv.Atoi(s[:n])
		if s = s[n:]; err != nil {
			value = maxPadding + 1
		}
		return checkWidth(value)
	}
	var err error
	if countDigits(s) > 0 {
		if sp.width, err = width(); err != nil {
			return sp, err
		}
	}
	sp.comma = take(",_")
	if take(".") != 0 {
		if countDigits(s) == 0 {
			return sp, runtimeErrorf("Format specifier missing precision")
		}
		if sp.precision, err = width(); err != nil {
			return sp, err
		}
	}
	sp.verb = take("sdxXobneEfFgG%")
	if s != "" {
		return sp, runtimeErrorf("Invalid format specifier")
	}
	return sp, nil
}
