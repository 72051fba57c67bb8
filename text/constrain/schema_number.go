package constrain

import (
	"strconv"
	"strings"
)

// maxDigits is the number of digits on each side of the point, unless the schema is open. All such numbers
// are exact in a program that reads them as floating-point numbers.
const maxDigits = 15

// maxMultiple is the greatest multipleOf, each of which needs as many rules.
const maxMultiple = 1000

// limit is a bound of numbers.
type limit struct {
	decimal
	strict bool // the bound itself is excluded
}

// number compiles what a schema says about numbers.
func (c *schemaCompiler) number(v *value, path string, integer bool) (expr, error) {
	low, err := c.limit(v, path, "minimum", "exclusiveMinimum", 1)
	if err != nil {
		return nothing, err
	}
	high, err := c.limit(v, path, "maximum", "exclusiveMaximum", -1)
	if err != nil {
		return nothing, err
	}
	low, high = c.formatLimits(v, low, high)
	multiple, err := c.multiple(v, path)
	if err != nil {
		return nothing, err
	}
	n := numbers{m: c.m, integer: integer || multiple != nothing, digits: maxDigits, exponents: low == nil && high == nil}
	if c.open {
		n.digits = unlimited
	}
	all := []expr{n.anyNumber()}
	if multiple != nothing {
		all = append(all, multiple)
	}
	if low != nil {
		all = append(all, n.atLeast(*low))
	}
	if high != nil {
		all = append(all, n.atMost(*high))
	}
	return c.m.both(all...), c.m.err
}

// limit reads the stricter of two bounds. up is 1 for lower bounds, -1 for upper ones.
func (c *schemaCompiler) limit(v *value, path, name, strict string, up int) (found *limit, err error) {
	for _, key := range []string{name, strict} {
		given := v.get(key)
		if given == nil {
			continue
		}
		d, ok := decimal{}, false
		if given.kind == jsonNumber {
			d, ok = parseDecimal(given.text)
		}
		if !ok {
			return nil, refuse(below(path, key), "%s is not a number of at most %d digits", given, maxPlain)
		}
		next := &limit{d, key == strict}
		if found == nil || up*d.compare(found.decimal) > 0 || d.compare(found.decimal) == 0 {
			found = next
		}
	}
	return found, nil
}

// formatLimits adds the bounds of a format.
func (c *schemaCompiler) formatLimits(v *value, low, high *limit) (least, most *limit) {
	bits := map[string]int{"int32": 31, "int64": 63}
	format := v.get("format")
	if format == nil || bits[format.text] == 0 {
		return low, high
	}
	edge := uint64(1) << bits[format.text]
	l, _ := parseDecimal("-" + strconv.FormatUint(edge, 10))
	h, _ := parseDecimal(strconv.FormatUint(edge-1, 10))
	if low == nil || low.compare(l) < 0 {
		low = &limit{decimal: l}
	}
	if high == nil || high.compare(h) > 0 {
		high = &limit{decimal: h}
	}
	return low, high
}

// compare compares two numbers.
func (d decimal) compare(o decimal) int {
	switch {
	case d.negative && !o.negative:
		return -1
	case !d.negative && o.negative:
		return 1
	case d.negative:
		d, o = o, d
	}
	if n := len(d.whole) - len(o.whole); n != 0 {
		return n
	}
	if n := strings.Compare(d.whole, o.whole); n != 0 {
		return n
	}
	return strings.Compare(d.part, o.part)
}

// multiple compiles multipleOf: a rule for each remainder of the digits so far.
func (c *schemaCompiler) multiple(v *value, path string) (expr, error) {
	given := v.get("multipleOf")
	if given == nil {
		return nothing, nil
	}
	k, err := strconv.Atoi(plainNumber(given.text))
	if given.kind != jsonNumber || err != nil || k < 1 || k > maxMultiple {
		return nothing, refuse(below(path, "multipleOf"), "%s is not supported: only whole numbers from 1 to %d are", given, maxMultiple)
	}
	rules, indexes := make([]expr, k), make([]int, k)
	for i := range rules {
		rules[i], indexes[i] = c.m.rule()
	}
	for i := range rules {
		var ways []expr
		for d := range 10 {
			ways = append(ways, c.m.pair(c.m.literal(strconv.Itoa(d)), rules[(10*i+d)%k]))
		}
		if i == 0 {
			ways = append(ways, empty)
		}
		c.m.rules[indexes[i]] = c.m.choice(ways...)
	}
	return c.m.sequence(c.m.optional(c.m.literal("-")), rules[0]), c.m.err
}

// numbers makes expressions for numbers without exponents.
type numbers struct {
	m         *machine
	integer   bool
	digits    int  // on each side of the point; unlimited
	exponents bool // allowed where nothing is compared
}

// between returns an expression for one digit.
func (n *numbers) between(low, high byte) expr {
	var set byteSet
	for d := low; d <= high; d++ {
		set.add(d)
	}
	return n.m.set(set)
}

func (n *numbers) digit() expr { return n.between('0', '9') }

// anyDigits returns an expression for low or more digits.
func (n *numbers) anyDigits(low int) expr { return n.m.repeat(n.digit(), low, unlimited) }

// anyNumber returns an expression for all numbers.
func (n *numbers) anyNumber() expr {
	m := n.m
	more := unlimited
	if n.digits != unlimited {
		more = n.digits - 1
	}
	positive := m.sequence(n.between('1', '9'), m.repeat(n.digit(), 0, more))
	minus := m.optional(m.literal("-"))
	if n.integer {
		return m.choice(m.literal("0"), m.sequence(minus, positive))
	}
	part := m.optional(m.sequence(m.literal("."), m.repeat(n.digit(), 1, n.digits)))
	exponent := empty
	if n.exponents {
		most := 2 // what is more does not fit into floating-point numbers
		if n.digits == unlimited {
			most = unlimited
		}
		var mark, sign byteSet
		mark.add('e')
		mark.add('E')
		sign.add('+')
		sign.add('-')
		exponent = m.optional(m.sequence(m.set(mark), m.optional(m.set(sign)), m.repeat(n.digit(), 1, most)))
	}
	return m.sequence(minus, m.choice(m.literal("0"), positive), part, exponent)
}

// atLeast returns an expression for numbers from a bound up, except that anyNumber limits their form.
func (n *numbers) atLeast(l limit) expr {
	minus := n.m.literal("-")
	if !l.negative {
		return n.more(l)
	}
	return n.m.choice(n.unsigned(), n.m.sequence(minus, n.less(l)))
}

// atMost returns an expression for numbers up to a bound.
func (n *numbers) atMost(l limit) expr {
	minus := n.m.literal("-")
	switch {
	case l.negative:
		return n.m.sequence(minus, n.more(l))
	case l.whole == "" && l.part == "" && l.strict:
		return n.m.sequence(minus, n.more(l))
	}
	return n.m.choice(n.m.sequence(minus, n.unsigned()), n.less(l))
}

// unsigned returns an expression for all digits with or without a point.
func (n *numbers) unsigned() expr {
	return n.m.sequence(n.anyDigits(1), n.anyPart())
}

// anyPart returns an expression for any digits behind a point, or nothing.
func (n *numbers) anyPart() expr {
	if n.integer {
		return empty
	}
	return n.m.optional(n.m.sequence(n.m.literal("."), n.anyDigits(1)))
}

// more returns an expression for numbers without a sign that are greater than a bound, or equal to it.
func (n *numbers) more(l limit) expr {
	whole := wholeOf(l)
	ways := []expr{
		n.m.sequence(n.between('1', '9'), n.anyDigits(len(whole)), n.anyPart()),
		n.m.sequence(n.digitsBeside(whole, 1), n.anyPart()),
	}
	if n.integer {
		if l.part == "" && !l.strict {
			ways = append(ways, n.m.literal(whole))
		}
		return n.m.choice(ways...)
	}
	return n.m.choice(append(ways, n.m.sequence(n.m.literal(whole), n.morePart(l)))...)
}

// wholeOf returns the digits before the point.
func wholeOf(l limit) string {
	if l.whole == "" {
		return "0"
	}
	return l.whole
}

// less returns an expression for numbers without a sign that are less than a bound, or equal to it.
func (n *numbers) less(l limit) expr {
	whole := wholeOf(l)
	ways := []expr{n.m.sequence(n.digitsBeside(whole, -1), n.anyPart())}
	if len(whole) > 1 {
		shorter := n.m.choice(n.m.literal("0"), n.m.sequence(n.between('1', '9'), n.m.repeat(n.digit(), 0, len(whole)-2)))
		ways = append(ways, n.m.sequence(shorter, n.anyPart()))
	}
	if n.integer {
		if l.part != "" || !l.strict {
			ways = append(ways, n.m.literal(whole))
		}
		return n.m.choice(ways...)
	}
	return n.m.choice(append(ways, n.m.sequence(n.m.literal(whole), n.lessPart(l)))...)
}

// digitsBeside returns an expression for as many digits that are more (1) or less (-1).
func (n *numbers) digitsBeside(digits string, up int) expr {
	var ways []expr
	for i := range digits {
		if e := n.digitBeside(digits, i, up); e != nothing {
			rest := len(digits) - i - 1
			ways = append(ways, n.m.sequence(n.m.literal(digits[:i]), e, n.m.repeat(n.digit(), rest, rest)))
		}
	}
	return n.m.choice(ways...)
}

// digitBeside returns an expression for a digit that is more or less than another one. A number of several digits does
// not begin with 0, which anyNumber excludes.
func (n *numbers) digitBeside(digits string, i, up int) expr {
	if up > 0 {
		return n.between(digits[i]+1, '9')
	}
	return n.between('0', digits[i]-1)
}

// morePart returns an expression for what is behind the digits before the point.
func (n *numbers) morePart(l limit) expr {
	m := n.m
	notZero := m.sequence(m.repeat(m.literal("0"), 0, unlimited), n.between('1', '9'), n.anyDigits(0))
	switch {
	case l.part == "" && !l.strict:
		return n.anyPart()
	case l.part == "":
		return m.sequence(m.literal("."), notZero)
	}
	var ways []expr
	for i := range l.part {
		if e := n.digitBeside(l.part, i, 1); e != nothing {
			ways = append(ways, m.sequence(m.literal(l.part[:i]), e, n.anyDigits(0)))
		}
	}
	rest := n.anyDigits(0)
	if l.strict {
		rest = notZero
	}
	ways = append(ways, m.sequence(m.literal(l.part), rest))
	return m.sequence(m.literal("."), m.choice(ways...))
}

// lessPart returns an expression for what is behind the digits before the point.
func (n *numbers) lessPart(l limit) expr {
	m := n.m
	zeros := m.repeat(m.literal("0"), 0, unlimited)
	if l.part == "" {
		if l.strict {
			return nothing
		}
		return m.optional(m.sequence(m.literal(".0"), zeros))
	}
	var ways []expr
	for i := range l.part {
		if e := n.digitBeside(l.part, i, -1); e != nothing {
			ways = append(ways, m.sequence(m.literal(l.part[:i]), e, n.anyDigits(0)))
		}
		if i > 0 {
			ways = append(ways, m.literal(l.part[:i]))
		}
	}
	if !l.strict {
		ways = append(ways, m.sequence(m.literal(l.part), zeros))
	}
	return m.optional(m.sequence(m.literal("."), m.choice(ways...)))
}
