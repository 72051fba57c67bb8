package jinja

import (
	"strconv"
	"strings"
)

// spec is a parsed format directive of % or of str.format.
type spec struct {
	fill      rune
	align     byte // '<' '>' '^' '=', or 0 for the default of the type
	sign      byte // '+', ' ' or 0
	alternate bool
	comma     byte // thousands separator ',' or '_', or 0
	width     int
	precision int // -1 if not specified
	verb      byte
}

// formatPercent implements Python's format % args.
func (r *renderer) formatPercent(format string, args value) (value, error) {
	f := &percentFormatter{r: r, s: format, args: args}
	if t, ok := args.(*tuple); ok {
		f.positional = t.items
	} else {
		f.positional = []value{args}
	}
	return f.expand()
}

// percentFormatter expands one format string.
type percentFormatter struct {
	r          *renderer
	s          string
	pos        int
	args       value
	positional []value
	next       int
	usedKeys   bool // a directive used a mapping key
	out        strings.Builder
}

// expand copies the text and expands the directives. As in Python, an unused argument
// is an error.
func (f *percentFormatter) expand() (value, error) {
	for f.pos < len(f.s) {
		i := strings.IndexByte(f.s[f.pos:], '%')
		if i < 0 {
			i = len(f.s) - f.pos
		}
		text := f.s[f.pos : f.pos+i]
		f.pos += i
		if f.pos < len(f.s) {
			f.pos++
			directive, err := f.directive()
			if err != nil {
				return nil, err
			}
			text += directive
		}
		if err := f.r.chargeString(len(text)); err != nil {
			return nil, err
		}
		if f.out.Len()+len(text) > maxOutput {
			return nil, f.r.chargeString(-1)
		}
		f.out.WriteString(text)
	}
	if f.next < len(f.positional) && !f.usedKeys && !acceptsKeys(f.args) {
		return nil, runtimeErrorf("not all arguments converted during string formatting")
	}
	return f.out.String(), nil
}

// acceptsKeys reports whether args supports mapping keys. For such args Python does not
// require that the format uses them.
func acceptsKeys(args value) bool {
	switch args.(type) {
	case *dict, *list, *rangeValue, *undefined:
		return true
	}
	return false
}

// directive formats the directive after a percent sign.
func (f *percentFormatter) directive() (string, error) {
	v, named, err := f.mappingKey()
	if err != nil {
		return "", err
	}
	sp := spec{fill: ' ', precision: -1}
	zero := f.flags(&sp)
	if sp.width, err = f.widthOrPrecision(0); err != nil {
		return "", err
	}
	if sp.width < 0 {
		sp.align, sp.width = '<', -sp.width
	}
	if f.pos < len(f.s) && f.s[f.pos] == '.' {
		f.pos++
		if sp.precision, err = f.widthOrPrecision(0); err != nil {
			return "", err
		}
	}
	// Python accepts the length modifiers of C and ignores them.
	for f.pos < len(f.s) && strings.IndexByte("hlL", f.s[f.pos]) >= 0 {
		f.pos++
	}
	if f.pos >= len(f.s) {
		return "", runtimeErrorf("incomplete format")
	}
	sp.verb = f.s[f.pos]
	f.pos++
	if sp.verb == '%' {
		return "%", nil
	}
	if !named {
		if v, err = f.argument(); err != nil {
			return "", err
		}
	}
	if zero && sp.align == 0 && strings.IndexByte("srac", sp.verb) < 0 {
		sp.fill, sp.align = '0', '='
	}
	if sp.align == 0 {
		sp.align = '>'
	}
	return f.r.formatVerb(sp, v)
}

// mappingKey parses (key) and returns its value. The result is false if the directive
// has no key.
func (f *percentFormatter) mappingKey() (value, bool, error) {
	if f.pos >= len(f.s) || f.s[f.pos] != '(' {
		return nil, false, nil
	}
	end := strings.IndexByte(f.s[f.pos:], ')')
	if end < 0 {
		return nil, false, runtimeErrorf("incomplete format key")
	}
	key := f.s[f.pos+1 : f.pos+end]
	f.pos += end + 1
	d, ok := f.args.(*dict)
	if !ok {
		return nil, false, runtimeErrorf("format requires a mapping")
	}
	v, ok := d.get(key)
	if !ok {
		return nil, false, runtimeErrorf("%s", quote(key))
	}
	f.usedKeys = true
	return v, true, nil
}

// flags parses the flags. zero reports the flag 0, which pads numbers with zeros.
func (f *percentFormatter) flags(sp *spec) (zero bool) {
	for ; f.pos < len(f.s); f.pos++ {
		switch c := f.s[f.pos]; c {
		case '-':
			sp.align = '<'
		case '+':
			sp.sign = c
		case ' ':
			if sp.sign == 0 {
				sp.sign = c
			}
		case '#':
			sp.alternate = true
		case '0':
			zero = true
		default:
			return zero
		}
	}
	return zero
}

// widthOrPrecision parses digits, or * for an argument.
func (f *percentFormatter) widthOrPrecision(fallback int) (int, error) {
	if f.pos < len(f.s) && f.s[f.pos] == '*' {
		f.pos++
		v, err := f.argument()
		if err != nil {
			return 0, err
		}
		n, _, isInt, ok := number(v)
		if !ok || !isInt {
			return 0, runtimeErrorf("* wants int")
		}
		return checkWidth(int(n))
	}
	n := countDigits(f.s[f.pos:])
	if n == 0 {
		return fallback, nil
	}
	digits := f.s[f.pos : f.pos+n]
	f.pos += n
	width, err := strconv.Atoi(strings.ReplaceAll(digits, "_", ""))
	if err != nil {
		width = maxPadding + 1
	}
	return checkWidth(width)
}

// checkWidth rejects a padding that would only waste memory.
func checkWidth(n int) (int, error) {
	if n > maxPadding || n < -maxPadding {
		return 0, limitErrorf("a width or precision exceeds %d", maxPadding)
	}
	return n, nil
}

// argument returns the next positional argument.
func (f *percentFormatter) argument() (value, error) {
	if f.next >= len(f.positional) {
		return nil, runtimeErrorf("not enough arguments for format string")
	}
	f.next++
	return f.positional[f.next-1], nil
}

// formatVerb formats v for a percent directive.
func (r *renderer) formatVerb(sp spec, v value) (string, error) {
	switch sp.verb {
	case 's':
		s, err := r.str(v)
		if err != nil {
			return "", err
		}
		return r.formatText(sp, s)
	case 'r', 'a':
		w := &reprWriter{m: r.meter}
		if err := w.repr(v, 0); err != nil {
			return "", err
		}
		return r.formatText(sp, w.b.String())
	case 'c':
		if i, _, isInt, ok := number(v); ok && isInt {
			v = string(rune(i))
		}
		s, ok := plain(v).(string)
		if !ok || runeCount(s) != 1 {
			return "", runtimeErrorf("%%c requires int or char")
		}
		sp.precision = -1
		return r.formatText(sp, s)
	case 'd', 'i', 'u', 'x', 'X', 'o', 'e', 'E', 'f', 'F', 'g', 'G':
		return r.formatPercentNumber(sp, v)
	}
	return "", runtimeErrorf("unsupported format character '%c'", sp.verb)
}

// formatPercentNumber formats v for a numeric directive. %d truncates a float.
func (r *renderer) formatPercentNumber(sp spec, v value) (string, error) {
	i, f, isInt, ok := number(v)
	if !ok {
		return "", runtimeErrorf("%%%c format: a real number is required, not %s", sp.verb, typeName(v))
	}
	switch sp.verb {
	case 'd', 'i', 'u', 'x', 'X', 'o':
		if !isInt {
			if strings.IndexByte("xXo", sp.verb) >= 0 {
				return "", runtimeErrorf("%%%c format: an integer is required, not float", sp.verb)
			}
			truncated, err := floatToInt(f)
			if err != nil {
				return "", err
			}
			if i, ok = truncated.(int64); !ok {
				return "", overflow()
			}
		}
		if strings.IndexByte("iu", sp.verb) >= 0 {
			sp.verb = 'd'
		}
		return r.formatInteger(sp, i)
	}
	return r.formatReal(sp, f)
}
