package constrain

import (
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"
)

// maxIndent is the most white space behind the end of a line.
const maxIndent = 20

// white returns an expression for white space between tokens: none, a space, or the end of a line with an indentation.
// Its length is bounded, so that a model cannot write white space without end.
func (c *schemaCompiler) white() expr {
	if c.space == nothing {
		var indent byteSet
		indent.add(' ')
		indent.add('\t')
		c.space = c.m.choice(empty, c.m.literal(" "), c.m.sequence(c.m.literal("\n"), c.m.repeat(c.m.set(indent), 0, maxIndent)))
	}
	return c.space
}

// comma returns an expression for what is between two members.
func (c *schemaCompiler) comma() expr { return c.m.sequence(c.m.literal(","), c.white()) }

// anyValue returns an expression for any value.
func (c *schemaCompiler) anyValue() expr {
	if c.anything != nothing {
		return c.anything
	}
	var index int
	c.anything, index = c.m.rule()
	none := &value{kind: jsonObject}
	var ways []expr
	for _, kind := range allTypes {
		e, _ := c.ofType(kind, none, "") // nothing in it can be refused
		ways = append(ways, e)
	}
	c.m.rules[index] = c.m.choice(ways...)
	return c.anything
}

// inner compiles a schema within another one, or returns that of any value if there is none.
func (c *schemaCompiler) inner(v *value, path string) (expr, error) {
	if v == nil {
		return c.anyValue(), nil
	}
	return c.schema(v, path)
}

// array compiles what a schema says about lists.
func (c *schemaCompiler) array(v *value, path string) (expr, error) {
	low, high, err := counts(v, "minItems", "maxItems", path)
	if err != nil {
		return nothing, err
	}
	if unique := v.get("uniqueItems"); unique != nil && (unique.kind != jsonBool || unique.yes) {
		return nothing, refuse(below(path, "uniqueItems"), "only false is supported")
	}
	item, err := c.inner(v.get("items"), below(path, "items"))
	if err != nil {
		return nothing, err
	}
	var first []expr
	if prefix := v.get("prefixItems"); prefix != nil {
		if prefix.kind != jsonArray {
			return nothing, refuse(below(path, "prefixItems"), "must be a list of schemas")
		}
		for i, inner := range prefix.items {
			e, err := c.schema(inner, below(below(path, "prefixItems"), strconv.Itoa(i)))
			if err != nil {
				return nothing, err
			}
			first = append(first, e)
		}
	}
	return c.items(first, item, low, high), c.m.err
}

// items returns an expression for a list: those in first, then any number of item.
func (c *schemaCompiler) items(first []expr, item expr, low, high int) expr {
	m := c.m
	end := m.sequence(c.white(), m.literal("]"))
	if len(first) == 0 {
		first = []expr{item} // the first one has no comma before it
	}
	n := len(first)
	rest := nothing
	if high == unlimited || high >= n {
		most := unlimited
		if high != unlimited {
			most = high - n
		}
		rest = m.sequence(m.repeat(m.sequence(c.comma(), item), max(0, low-n), most), end)
	}
	for i, e := range slices.Backward(first) {
		lead := c.comma()
		if i == 0 {
			lead = c.white()
		}
		more := m.sequence(lead, e, rest)
		switch {
		case high != unlimited && high <= i:
			rest = end
		case low > i:
			rest = more
		default:
			rest = m.choice(more, end)
		}
		if high != unlimited && low > high {
			rest = nothing
		}
	}
	return m.sequence(m.literal("["), rest)
}

// declared is a property of an object.
type declared struct {
	name     string
	value    expr
	required bool
}

// object compiles what a schema says about objects.
func (c *schemaCompiler) object(v *value, path string) (expr, error) {
	extra, err := c.extra(v, path)
	if err != nil {
		return nothing, err
	}
	list, err := c.declared(v, path, extra)
	if err != nil {
		return nothing, err
	}
	least, err := count(v, "minProperties", path, 0)
	if err != nil {
		return nothing, err
	}
	for i := range list {
		if list[i].required {
			least--
		}
	}
	if least > 0 {
		return nothing, refuse(below(path, "minProperties"), "more properties than the required ones are not supported")
	}
	optional := 0
	for i := range list {
		if !list[i].required {
			optional++
		}
	}
	if optional > maxOptional {
		return nothing, fmt.Errorf("%w: schema, %s: it has more than %d properties that may be left out", ErrComplex, path, maxOptional)
	}
	return c.members(list, extra), c.m.err
}

// extra compiles the schema of properties that are not declared; nothing if there may be none.
func (c *schemaCompiler) extra(v *value, path string) (expr, error) {
	given := v.get("additionalProperties")
	if given == nil && !c.open && (v.get("properties") != nil || v.get("required") != nil) {
		return nothing, nil
	}
	return c.inner(given, below(path, "additionalProperties"))
}

// declared compiles the properties that a schema names.
func (c *schemaCompiler) declared(v *value, path string, extra expr) (list []declared, err error) {
	at := map[string]int{}
	if properties := v.get("properties"); properties != nil {
		if properties.kind != jsonObject {
			return nil, refuse(below(path, "properties"), "must be an object")
		}
		for _, m := range properties.members {
			e, err := c.schema(m.value, below(below(path, "properties"), m.name))
			if err != nil {
				return nil, err
			}
			at[m.name] = len(list)
			list = append(list, declared{name: m.name, value: e})
		}
	}
	required := v.get("required")
	if required == nil {
		return list, nil
	}
	if required.kind != jsonArray {
		return nil, refuse(below(path, "required"), "must be a list of names")
	}
	for _, name := range required.items {
		if name.kind != jsonString {
			return nil, refuse(below(path, "required"), "%s is no name", name)
		}
		i, ok := at[name.text]
		if !ok {
			i = len(list)
			at[name.text] = i
			e := extra
			if v.get("additionalProperties") == nil {
				e = c.anyValue()
			}
			list = append(list, declared{name: name.text, value: e})
		}
		list[i].required = true
	}
	return list, nil
}

// members returns an expression for an object: the declared properties in order, then others.
func (c *schemaCompiler) members(list []declared, extra expr) expr {
	m := c.m
	first := m.sequence(c.white(), m.literal("}")) // what follows if no property was before
	behind := first                                // and if one was
	if extra != nothing {
		names := make([]string, len(list))
		for i := range list {
			names[i] = list[i].name
			m.charge(stepsOfByte * len(names[i]))
		}
		if m.err != nil {
			return nothing
		}
		member := m.sequence(m.literal(`"`), c.nameBeside(names), m.literal(`":`), c.white(), extra)
		behind = m.sequence(m.repeat(m.sequence(c.comma(), member), 0, unlimited), behind)
		first = m.choice(first, m.sequence(c.white(), member, behind))
	}
	for _, p := range slices.Backward(list) {
		member := m.sequence(m.literal(quote(p.name)+":"), c.white(), p.value, behind)
		with, without := m.sequence(c.comma(), member), behind
		withFirst, withoutFirst := m.sequence(c.white(), member), first
		if p.required {
			without, withoutFirst = nothing, nothing
		}
		behind, first = m.choice(with, without), m.choice(withFirst, withoutFirst)
	}
	return m.sequence(m.literal("{"), first)
}

// stepsOfByte is what a byte of a name counts for that other names differ from.
const stepsOfByte = 100

// nameBeside returns an expression for the names of properties that are not among some.
func (c *schemaCompiler) nameBeside(names []string) expr {
	m := c.m
	anything := m.repeat(c.anyRune(), 0, unlimited)
	if len(names) == 0 {
		return anything
	}
	rest := map[rune][]string{}
	var begins []runeRange
	ends := false
	for _, name := range names {
		if name == "" {
			ends = true
			continue
		}
		r, width := utf8.DecodeRuneInString(name)
		if rest[r] == nil {
			begins = append(begins, runeRange{r, r})
		}
		rest[r] = append(rest[r], name[width:])
	}
	ways := []expr{m.sequence(c.setBeside(begins), anything)}
	for _, b := range begins {
		ways = append(ways, m.sequence(c.set(single(b.low)), c.nameBeside(rest[b.low])))
	}
	if !ends {
		ways = append(ways, empty)
	}
	return m.choice(ways...)
}

// setBeside returns an expression for a character that is not among some. Names repeat characters.
func (c *schemaCompiler) setBeside(ranges []runeRange) expr {
	set := newRuneSet(slices.Clone(ranges)...)
	key := fmt.Sprint(set)
	if _, ok := c.beside[key]; !ok {
		c.beside[key] = c.set(set.negate())
	}
	return c.beside[key]
}
