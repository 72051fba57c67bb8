package constrain

import (
	"fmt"
	"slices"
	"strconv"
)

// Merge joins answers within a schema, in the order of the parts of a document from which they come, to one that is valid in it too. No
// model is asked, so nothing is in the result that no answer has:
//
//   - Objects are joined property by property.
//   - Lists of items are joined in order. Of equal items the first stays, and at most maxItems.
//   - Of other values, and of lists and objects of several forms (prefixItems, and anyOf but for null), the one that most answers
//     have is taken, the first of those that are equally frequent.
//   - null and what is empty counts only if no answer has more.
func (k Compiler) Merge(schema []byte, answers []string) (string, error) {
	counted := k.meter()
	root, err := readSchema(schema, counted)
	if err != nil {
		return "", err
	}
	g, err := compileSchema(root, SchemaOptions{}, counted)
	if err != nil {
		return "", err
	}
	var values []*value
	length := 0
	for i, text := range answers {
		v, err := parseAnswer(text, counted)
		if err != nil {
			return "", fmt.Errorf("answer %d of %d cannot be read: %w", i+1, len(answers), err)
		}
		values, length = append(values, v), length+len(text)
	}
	if len(values) == 0 {
		return "", fmt.Errorf("constrain: no answers to merge")
	}
	if err := counted.take(4 * int64(length)); err != nil { // the result, whose buffer doubles, and its copy
		return "", err
	}
	c := newSchemaCompiler(newMachine(counted), root, false)
	v := c.merge(root, values, 0)
	if c.m.err != nil {
		return "", c.m.err
	}
	merged := string(v.appendTo(nil, asWritten))
	ok, err := g.matches(merged, counted)
	if err == nil && !ok {
		err = fmt.Errorf("constrain: the merged answer %s is not in the schema", merged)
	}
	return merged, err
}

// Merge is that of a [Compiler] without options.
func Merge(schema []byte, answers []string) (string, error) { return Compiler{}.Merge(schema, answers) }

// take counts memory of a merge. Where it reports that there is none, the machine has the error.
func (c *schemaCompiler) take(bytes int64) bool {
	if c.m.err == nil {
		c.m.err = c.m.meter.take(bytes)
	}
	return c.m.err == nil
}

// merge returns what values within a schema say together. There is at least one.
func (c *schemaCompiler) merge(schema *value, values []*value, depth int) *value {
	values = stated(values)
	schema = c.plainSchema(schema)
	switch {
	case schema == nil || schema.kind != jsonObject || depth > maxNesting:
	case allOf(values, jsonObject):
		return c.mergeObjects(schema, values, depth)
	case allOf(values, jsonArray) && schema.get("prefixItems") == nil:
		return c.joinLists(schema, values)
	}
	return c.mostFrequent(values)
}

// plainSchema follows references, and leaves out what allows null. It returns nil for a schema whose parts do not say alone what is valid.
func (c *schemaCompiler) plainSchema(v *value) *value {
	for range maxNesting {
		v = c.resolved(v)
		ways := v.get("anyOf")
		if ways == nil || len(v.without("anyOf").members) > 0 || ways.kind != jsonArray {
			break
		}
		rest := slices.DeleteFunc(slices.Clone(ways.items), func(way *value) bool {
			return slices.Equal(statedTypes(c.resolved(way)), []string{"null"})
		})
		if len(rest) != 1 {
			return nil
		}
		v = rest[0]
	}
	for _, name := range []string{"$ref", "anyOf", "oneOf", "allOf", "enum", "const"} {
		if v.get(name) != nil {
			return nil
		}
	}
	return v
}

// stated returns the values that say something, or all of them if none does.
func stated(values []*value) []*value {
	some := slices.DeleteFunc(slices.Clone(values), func(v *value) bool {
		return v.kind == jsonNull || v.kind == jsonString && v.text == "" || v.kind == jsonArray && len(v.items) == 0 || v.kind == jsonObject && len(v.members) == 0
	})
	if len(some) == 0 {
		return values
	}
	return some
}

func allOf(values []*value, kind valueKind) bool {
	return !slices.ContainsFunc(values, func(v *value) bool { return v.kind != kind })
}

// mergeObjects joins the properties of objects: those that the schema declares, in its order, then others.
func (c *schemaCompiler) mergeObjects(schema *value, values []*value, depth int) *value {
	merged := &value{kind: jsonObject}
	add := func(name string, inner *value) {
		var of []*value
		for _, v := range values {
			if p := v.get(name); p != nil {
				of = append(of, p)
			}
		}
		if len(of) > 0 && merged.get(name) == nil && c.take(valueBytes) {
			merged.members = append(merged.members, member{name, c.merge(inner, of, depth+1)})
		}
	}
	anything := &value{kind: jsonBool, yes: true}
	if properties := schema.get("properties"); properties != nil {
		for _, p := range properties.members {
			add(p.name, p.value)
		}
	}
	extra := schema.get("additionalProperties")
	if extra == nil {
		extra = anything
	}
	for _, name := range requiredNames(schema) { // not declared: the grammar has them before others
		add(name, extra)
	}
	for _, v := range values {
		for _, p := range v.members {
			add(p.name, extra)
		}
	}
	return merged
}

// joinLists joins lists without repeats, unless minItems needs them.
func (c *schemaCompiler) joinLists(schema *value, values []*value) *value {
	if len(values) == 1 {
		return values[0]
	}
	bound := func(name string, missing int) int {
		if given := schema.get(name); given != nil {
			missing, _ = strconv.Atoi(plainNumber(given.text)) // the schema is valid
		}
		return missing
	}
	most := bound("maxItems", maxBound)
	joined := &value{kind: jsonArray}
	seen := map[string]bool{}
	for _, v := range values {
		for _, item := range v.items {
			if text := item.String(); !seen[text] && len(joined.items) < most && c.take(valueBytes+int64(len(text))) {
				seen[text] = true
				joined.items = append(joined.items, item)
			}
		}
	}
	if len(joined.items) < bound("minItems", 0) {
		return values[0]
	}
	return joined
}

// mostFrequent returns the value that is there most often, the first of equals.
func (c *schemaCompiler) mostFrequent(values []*value) *value {
	counts := map[string]int{}
	for _, v := range values {
		text := v.String()
		if counts[text] == 0 && !c.take(int64(len(text))) {
			break
		}
		counts[text]++
	}
	best := values[0]
	for _, v := range values {
		if counts[v.String()] > counts[best.String()] {
			best = v
		}
	}
	return best
}
