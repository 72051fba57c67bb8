package constrain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// SchemaOptions configure how a schema is read.
type SchemaOptions struct {
	// Open allows everything that the schema does. Without it the language is smaller, as is useful for answers: an
	// object has the declared properties alone unless additionalProperties says otherwise; a schema without a type has the types that its
	// keywords are about; numbers without bounds have at most 15 digits on each side of the point.
	Open bool
}

// JSON returns the language of all objects of JSON.
func JSON() (*Grammar, error) { return Schema([]byte(`{"type":"object"}`), SchemaOptions{}) }

// Schema compiles a JSON Schema of draft 2020-12: the language are texts of JSON that it accepts. They have properties in
// the order of the schema, and each string in one way. A keyword that is not supported is an error with its path.
func (k Compiler) Schema(text []byte, o SchemaOptions) (*Grammar, error) {
	counted := k.meter()
	root, err := readSchema(text, counted)
	if err != nil {
		return nil, err
	}
	return compileSchema(root, o, counted)
}

// readSchema parses a schema.
func readSchema(text []byte, counted *meter) (*value, error) {
	if err := checkSource("the schema", string(text)); err != nil {
		return nil, err
	}
	root, err := parseJSON(text, counted)
	if err != nil {
		return nil, fmt.Errorf("%w: schema: %w", ErrLanguage, err)
	}
	return root, nil
}

func compileSchema(root *value, o SchemaOptions, counted *meter) (*Grammar, error) {
	m := newMachine(counted)
	c := newSchemaCompiler(m, root, o.Open)
	e, err := c.schema(root, "#")
	if err != nil {
		return nil, err
	}
	return newGrammar(m, e, func(rule int) string { return "the schema at " + c.paths[rule] })
}

// Schema is that of a [Compiler] without options.
func Schema(text []byte, o SchemaOptions) (*Grammar, error) { return Compiler{}.Schema(text, o) }

func newSchemaCompiler(m *machine, root *value, open bool) *schemaCompiler {
	return &schemaCompiler{m: m, root: root, open: open, rules: map[*value]*schemaRule{}, paths: map[int]string{}, beside: map[string]expr{}, spelling: &spelling{m: m, quoted: true}}
}

// Call is a way to call a tool: an object within a schema, between two texts.
type Call struct {
	Name          string // of the tool, for errors
	Before, After string
	Schema        []byte // nil: the empty object
	Space         bool   // white space may follow Before
}

// mostSpace bounds the white space of [Call.Space].
const mostSpace = 2

// Calls compiles a choice between calls.
func (k Compiler) Calls(calls []Call) (*Grammar, error) {
	counted := k.meter()
	m := newMachine(counted)
	paths := map[int]string{}
	var ways []expr
	for i := range calls {
		call := &calls[i]
		text := call.Schema
		if text == nil {
			text = []byte(`{"properties":{}}`)
		}
		if err := checkSource("the schema of the tool "+call.Name, string(text)); err != nil {
			return nil, err
		}
		root, err := parseJSON(text, counted)
		if err != nil {
			return nil, fmt.Errorf("%w: tool %s: schema: %w", ErrLanguage, call.Name, err)
		}
		c := newSchemaCompiler(m, root, false)
		c.paths = paths
		if root, err = c.join(&value{kind: jsonObject, members: []member{{"type", &value{kind: jsonString, text: "object"}}}}, root, "#"); err != nil {
			return nil, fmt.Errorf("tool %s: %w", call.Name, err)
		}
		e, err := c.schema(root, "#")
		if err != nil {
			return nil, fmt.Errorf("tool %s: %w", call.Name, err)
		}
		before := m.literal(call.Before)
		if call.Space {
			var space byteSet
			space.add(' ')
			space.add('\n')
			before = m.pair(before, m.repeat(m.set(space), 0, mostSpace))
		}
		ways = append(ways, m.sequence(before, e, m.literal(call.After)))
	}
	return newGrammar(m, m.choice(ways...), func(rule int) string { return "the schema at " + paths[rule] })
}

// Calls is that of a [Compiler] without options.
func Calls(calls []Call) (*Grammar, error) { return Compiler{}.Calls(calls) }

// schemaCompiler compiles a schema.
type schemaCompiler struct {
	m     *machine
	root  *value
	open  bool
	rules map[*value]*schemaRule // of targets of references
	paths map[int]string         // of rules, for errors
	depth int
	*spelling

	space    expr            // white space between tokens of JSON; nothing until it is needed
	anything expr            // any value
	beside   map[string]expr // one character that is not in a set
}

type schemaRule struct {
	e     expr
	index int
}

// SchemaError describes what of a schema is refused.
type SchemaError struct {
	Path   string // of the keyword: a JSON pointer behind #
	Reason string
}

// Error returns the path and the reason.
func (e *SchemaError) Error() string { return "schema, " + e.Path + ": " + e.Reason }

// Unwrap returns ErrLanguage.
func (e *SchemaError) Unwrap() error { return ErrLanguage }

func refuse(path, format string, args ...any) error {
	return &SchemaError{path, fmt.Sprintf(format, args...)}
}

// below returns the path of a member.
func below(path, name string) string {
	return path + "/" + strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

// The keywords by what they are about.
var (
	annotations = []string{"$schema", "$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$defs", "definitions"}
	ofStrings   = []string{"minLength", "maxLength", "pattern"}
	ofNumbers   = []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
	ofArrays    = []string{"items", "prefixItems", "minItems", "maxItems", "uniqueItems"}
	ofObjects   = []string{"properties", "required", "additionalProperties", "minProperties"}
	ofAny       = []string{"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "format"}
)

var allTypes = []string{"object", "array", "string", "number", "boolean", "null"}

// annotates reports whether a keyword says nothing about which values are valid.
func annotates(name string) bool {
	return slices.Contains(annotations, name) || strings.HasPrefix(name, "x-")
}

// schema compiles a schema.
func (c *schemaCompiler) schema(v *value, path string) (expr, error) {
	if c.depth++; c.depth > 2*maxNesting {
		return nothing, refuse(path, "schemas nest deeper than %d", 2*maxNesting)
	}
	defer func() { c.depth-- }()
	if c.m.err != nil {
		return nothing, c.m.err
	}
	switch {
	case v.kind == jsonBool && v.yes:
		return c.anyValue(), nil
	case v.kind == jsonBool:
		return nothing, nil
	case v.kind != jsonObject:
		return nothing, refuse(path, "a schema is an object or a boolean")
	}
	if err := checkKeywords(v, path); err != nil {
		return nothing, err
	}
	if format := v.get("format"); format != nil && !knownFormat(format) {
		return nothing, refuse(below(path, "format"), "%s is not supported", format)
	}
	return c.keywords(v, path)
}

// checkKeywords refuses keywords that are not supported.
func checkKeywords(v *value, path string) error {
	for _, m := range v.members {
		known := annotates(m.name)
		for _, group := range [][]string{ofStrings, ofNumbers, ofArrays, ofObjects, ofAny} {
			known = known || slices.Contains(group, m.name)
		}
		if !known {
			return refuse(below(path, m.name), "the keyword is not supported")
		}
	}
	return nil
}

// keywords compiles a schema that is an object.
func (c *schemaCompiler) keywords(v *value, path string) (expr, error) {
	for _, name := range []string{"$ref", "allOf", "anyOf", "oneOf"} {
		inner := v.get(name)
		if inner == nil {
			continue
		}
		rest := v.without(name)
		switch name {
		case "$ref":
			return c.reference(inner, rest, path)
		case "allOf":
			return c.all(inner, rest, path)
		}
		return c.either(name, inner, rest, path)
	}
	if v.get("enum") != nil || v.get("const") != nil {
		return c.values(v, path)
	}
	types, err := c.types(v, path)
	if err != nil {
		return nothing, err
	}
	var ways []expr
	for _, kind := range types {
		e, err := c.ofType(kind, v, path)
		if err != nil {
			return nothing, err
		}
		ways = append(ways, e)
	}
	return c.m.choice(ways...), c.m.err
}

// without returns a schema without a keyword and without annotations.
func (v *value) without(name string) *value {
	rest := &value{kind: jsonObject}
	for _, m := range v.members {
		if m.name != name && !annotates(m.name) {
			rest.members = append(rest.members, m)
		}
	}
	return rest
}

// types returns the types of values that a schema is about.
func (c *schemaCompiler) types(v *value, path string) ([]string, error) {
	given := v.get("type")
	if given == nil {
		return c.impliedTypes(v), nil
	}
	path = below(path, "type")
	list := []*value{given}
	if given.kind == jsonArray {
		list = given.items
	}
	var types []string
	for _, t := range list {
		if t.kind != jsonString || t.text != "integer" && !slices.Contains(allTypes, t.text) {
			return nil, refuse(path, "%s is no type", t)
		}
		types = append(types, t.text)
	}
	if slices.Contains(types, "number") { // integers are numbers
		types = slices.DeleteFunc(types, func(t string) bool { return t == "integer" })
	}
	return types, nil
}

// impliedTypes returns the types of a schema that names none.
func (c *schemaCompiler) impliedTypes(v *value) (types []string) {
	if c.open {
		return allTypes
	}
	groups := map[string][]string{"object": ofObjects, "array": ofArrays, "string": append([]string{"format"}, ofStrings...), "number": ofNumbers}
	for _, kind := range allTypes {
		if slices.ContainsFunc(groups[kind], func(name string) bool { return v.get(name) != nil }) {
			types = append(types, kind)
		}
	}
	if types == nil {
		return allTypes
	}
	return types
}

// ofType compiles what a schema says about values of a type.
func (c *schemaCompiler) ofType(kind string, v *value, path string) (expr, error) {
	switch kind {
	case "object":
		return c.object(v, path)
	case "array":
		return c.array(v, path)
	case "string":
		return c.str(v, path)
	case "number", "integer":
		return c.number(v, path, kind == "integer")
	case "boolean":
		return c.m.choice(c.m.literal("true"), c.m.literal("false")), nil
	}
	return c.m.literal("null"), nil
}

// reference compiles a reference, and what stands beside it.
func (c *schemaCompiler) reference(ref, beside *value, path string) (expr, error) {
	path = below(path, "$ref")
	target, at, err := c.target(ref, path)
	if err != nil {
		return nothing, err
	}
	if len(beside.members) > 0 {
		joined, err := c.join(beside, target, path)
		if err != nil {
			return nothing, err
		}
		return c.schema(joined, path)
	}
	r, ok := c.rules[target]
	if ok {
		return r.e, nil
	}
	r = &schemaRule{}
	r.e, r.index = c.m.rule()
	c.rules[target] = r
	c.paths[r.index] = at
	e, err := c.schema(target, at)
	c.m.rules[r.index] = e
	return r.e, err
}

// target returns what a reference points to, and its path.
func (c *schemaCompiler) target(ref *value, path string) (*value, string, error) {
	pointer, ok := strings.CutPrefix(ref.text, "#")
	if ref.kind != jsonString || !ok {
		return nil, "", refuse(path, "%s is not supported: only references into the schema itself are, such as #/$defs/name", ref)
	}
	pointer = unescapePercent(pointer)
	target := c.root.at(pointer)
	if target == nil {
		return nil, "", refuse(path, "%s is not in the schema", ref)
	}
	return target, "#" + pointer, nil
}

// either compiles anyOf and oneOf.
func (c *schemaCompiler) either(name string, list, beside *value, path string) (expr, error) {
	path = below(path, name)
	if list.kind != jsonArray || len(list.items) == 0 {
		return nothing, refuse(path, "must be a list of schemas that is not empty")
	}
	var ways []expr
	for i, way := range list.items {
		at := below(path, strconv.Itoa(i))
		if name == "oneOf" {
			for _, other := range list.items[:i] {
				if !c.disjoint(way, other, map[[2]*value]bool{}) {
					if c.m.err != nil {
						return nothing, c.m.err
					}
					return nothing, refuse(at, "a value may match it and another one of the list; where that cannot be excluded, use anyOf")
				}
			}
		}
		joined, err := c.join(beside, way, at)
		if err != nil {
			return nothing, err
		}
		e, err := c.schema(joined, at)
		if err != nil {
			return nothing, err
		}
		ways = append(ways, e)
	}
	return c.m.choice(ways...), c.m.err
}

// all compiles allOf.
func (c *schemaCompiler) all(list, beside *value, path string) (expr, error) {
	path = below(path, "allOf")
	if list.kind != jsonArray || len(list.items) == 0 {
		return nothing, refuse(path, "must be a list of schemas that is not empty")
	}
	joined := beside
	for i, part := range list.items {
		var err error
		if joined, err = c.join(joined, part, below(path, strconv.Itoa(i))); err != nil {
			return nothing, err
		}
	}
	return c.schema(joined, path)
}
