package constrain

import (
	"net/url"
	"slices"
)

// unescapePercent returns what a fragment of a reference stands for.
func unescapePercent(fragment string) string {
	if text, err := url.PathUnescape(fragment); err == nil {
		return text
	}
	return fragment
}

// join returns a schema that is valid where two others are. It joins keywords that say different things; what it cannot join is
// an error.
func (c *schemaCompiler) join(a, b *value, path string) (*value, error) {
	switch {
	case b.kind == jsonBool && b.yes, a.kind == jsonBool && !a.yes && b.kind == jsonBool:
		return a, nil
	case b.kind == jsonBool:
		return b, nil
	case b.kind != jsonObject:
		return nil, refuse(path, "a schema is an object or a boolean")
	case a.kind == jsonBool && !a.yes:
		return a, checkKeywords(b, path)
	case len(a.members) == 0:
		return b, nil
	}
	if err := checkKeywords(b, path); err != nil {
		return nil, err
	}
	joined := &value{kind: jsonObject, members: slices.Clone(a.members)}
	for _, m := range b.members {
		if annotates(m.name) {
			continue
		}
		if err := separable(a, m.name, path); err != nil {
			return nil, err
		}
		other := joined.get(m.name)
		if other == nil {
			joined.members = append(joined.members, m)
			continue
		}
		both, err := c.joinKeyword(m.name, other, m.value, path)
		if err != nil {
			return nil, err
		}
		for i := range joined.members {
			if joined.members[i].name == m.name {
				joined.members[i].value = both
			}
		}
	}
	return joined, nil
}

// separable refuses a keyword whose meaning depends on another one of the other schema.
func separable(a *value, name, path string) error {
	for _, group := range [][2]string{{"properties", "additionalProperties"}, {"items", "prefixItems"}} {
		for i := range group {
			if name == group[i] && a.get(group[1-i]) != nil {
				return refuse(below(path, name), "cannot be joined with %s of a schema that must also be met", group[1-i])
			}
		}
	}
	return nil
}

// joinKeyword joins a keyword that two schemas have.
func (c *schemaCompiler) joinKeyword(name string, a, b *value, path string) (*value, error) {
	c.m.charge(len(a.items)*len(b.items) + len(a.members)*len(b.members))
	if c.m.err != nil {
		return nil, c.m.err
	}
	one, other := a.String(), b.String()
	c.m.charge(len(one) + len(other))
	switch name {
	case "type":
		return joinTypes(a, b), nil
	case "required":
		joined := &value{kind: jsonArray, items: slices.Clone(a.items)}
		for _, item := range b.items {
			if !slices.ContainsFunc(a.items, func(other *value) bool { return other.String() == item.String() }) {
				joined.items = append(joined.items, item)
			}
		}
		return joined, nil
	case "properties":
		joined := &value{kind: jsonObject, members: slices.Clone(a.members)}
		for _, m := range b.members {
			if other := a.get(m.name); other != nil && other.String() != m.value.String() {
				return nil, refuse(below(below(path, name), m.name), "the property is described by another schema that must also be met")
			} else if other == nil {
				joined.members = append(joined.members, m)
			}
		}
		return joined, nil
	}
	if one == other {
		return a, c.m.err
	}
	return nil, refuse(below(path, name), "the keyword is also in another schema that must also be met")
}

// joinTypes returns the types that two lists have in common.
func joinTypes(a, b *value) *value {
	list := func(v *value) []*value {
		if v.kind == jsonArray {
			return v.items
		}
		return []*value{v}
	}
	has := func(list []*value, name string) bool {
		return slices.ContainsFunc(list, func(v *value) bool { return v.text == name })
	}
	joined := &value{kind: jsonArray}
	for _, t := range list(a) {
		other := list(b)
		if has(other, t.text) || t.text == "integer" && has(other, "number") {
			joined.items = append(joined.items, t)
		} else if t.text == "number" && has(other, "integer") {
			joined.items = append(joined.items, &value{kind: jsonString, text: "integer"})
		}
	}
	return joined
}

// disjoint reports whether it is certain that no value is valid in two schemas, whose meaning is that of the specification.
// seen are pairs about which it is not certain, or not yet: schemas may contain themselves.
func (c *schemaCompiler) disjoint(a, b *value, seen map[[2]*value]bool) bool {
	a, b = c.resolved(a), c.resolved(b)
	if c.m.charge(1); c.m.err != nil || seen[[2]*value{a, b}] || len(seen) >= maxNesting*maxNesting {
		return false
	}
	seen[[2]*value{a, b}] = true
	if a.kind == jsonBool || b.kind == jsonBool {
		return a.kind == jsonBool && !a.yes || b.kind == jsonBool && !b.yes
	}
	one, more := constants(a), constants(b)
	if one != nil && more != nil {
		if c.m.charge(len(one) * len(more)); c.m.err != nil {
			return false
		}
		return !slices.ContainsFunc(one, func(v *value) bool {
			return slices.ContainsFunc(more, func(other *value) bool { return v.equal(other) })
		})
	}
	types, others := statedTypes(a), statedTypes(b)
	if !slices.ContainsFunc(types, func(t string) bool { return slices.Contains(others, t) }) {
		return true
	}
	if len(types) != 1 || len(others) != 1 || types[0] != "object" {
		return false
	}
	names, otherNames := requiredNames(a), requiredNames(b)
	if c.m.charge(len(names) * len(otherNames)); c.m.err != nil {
		return false
	}
	for _, name := range names {
		if !slices.Contains(otherNames, name) {
			continue
		}
		x, y := property(a, name), property(b, name)
		if x != nil && y != nil && c.disjoint(x, y, seen) {
			return true
		}
	}
	return false
}

// resolved returns what a schema that is only a reference points to.
func (c *schemaCompiler) resolved(v *value) *value {
	for range maxNesting {
		ref := v.get("$ref")
		if ref == nil || len(v.without("$ref").members) > 0 {
			return v
		}
		target, _, err := c.target(ref, "")
		if err != nil {
			return v
		}
		v = target
	}
	return v
}

// constants returns the values of enum and const, nil if a schema has neither.
func constants(v *value) []*value {
	if one := v.get("const"); one != nil {
		return []*value{one}
	}
	if list := v.get("enum"); list != nil && list.kind == jsonArray && len(list.items) > 0 {
		return list.items
	}
	return nil
}

// statedTypes returns the types that a schema allows. Integers are numbers.
func statedTypes(v *value) (types []string) {
	if list := constants(v); list != nil {
		for _, item := range list {
			types = append(types, item.typeName())
		}
		return types
	}
	given := v.get("type")
	switch {
	case given == nil:
		return allTypes
	case given.kind == jsonString:
		types = []string{given.text}
	default:
		for _, t := range given.items {
			types = append(types, t.text)
		}
	}
	for i, t := range types {
		if t == "integer" {
			types[i] = "number"
		}
	}
	return types
}

func requiredNames(v *value) (names []string) {
	if list := v.get("required"); list != nil {
		for _, item := range list.items {
			names = append(names, item.text)
		}
	}
	return names
}

// property returns the schema of a property, nil if there is none.
func property(v *value, name string) *value {
	if properties := v.get("properties"); properties != nil {
		return properties.get(name)
	}
	return nil
}

// typeName returns the type of a value.
func (v *value) typeName() string {
	return [...]string{jsonNull: "null", jsonBool: "boolean", jsonNumber: "number", jsonString: "string", jsonArray: "array", jsonObject: "object"}[v.kind]
}

// equal reports whether two values are equal. The order of properties does not matter.
func (v *value) equal(other *value) bool {
	if v.kind != other.kind || len(v.items) != len(other.items) || len(v.members) != len(other.members) {
		return false
	}
	for i, item := range v.items {
		if !item.equal(other.items[i]) {
			return false
		}
	}
	for _, m := range v.members {
		if o := other.get(m.name); o == nil || !m.value.equal(o) {
			return false
		}
	}
	return v.kind == jsonObject || v.String() == other.String()
}
