package answer

import (
	"bytes"
	"encoding/json"
)

// Tools are the tools that a model may call.
type Tools struct {
	arguments map[string][]argument
	held      map[string]bool
}

// argument is a property of a tool's parameters.
type argument struct {
	name string
	types
}

// Add adds a tool. parameters is the JSON schema of its arguments, or nil.
func (t *Tools) Add(name string, parameters []byte) {
	if t.arguments == nil {
		t.arguments = map[string][]argument{}
	}
	t.arguments[name] = readArguments(parameters)
}

// Hold makes the calls of a tool ones whose arguments are a JSON object behind the name, so that they can be held to a schema while they are
// generated; see [Watch]. What is written in another form is text.
func (t *Tools) Hold(name string) {
	if t.held == nil {
		t.held = map[string]bool{}
	}
	t.held[name] = true
}

// has reports whether there is a tool with a name.
func (t *Tools) has(name string) bool {
	_, ok := t.arguments[name]
	return ok
}

// types returns what an argument may be.
func (t *Tools) types(tool, name string) types {
	for _, a := range t.arguments[tool] {
		if a.name == name {
			return a.types
		}
	}
	return anyType
}

// argument returns the name of the argument at an index, "" if there is none.
func (t *Tools) argument(tool string, i int) string {
	if all := t.arguments[tool]; i < len(all) {
		return all[i].name
	}
	return ""
}

// readArguments returns the properties of a schema in their order.
func readArguments(parameters []byte) (all []argument) {
	var schema struct {
		Properties json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(parameters, &schema) != nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(schema.Properties))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return nil
	}
	for d.More() {
		name, err := d.Token()
		var property json.RawMessage
		if err != nil || d.Decode(&property) != nil {
			return nil
		}
		all = append(all, argument{name.(string), typesOf(property, 0)})
	}
	return all
}

// typesOf returns the types that a schema allows.
func typesOf(schema []byte, depth int) types {
	var s struct {
		Type  any               `json:"type"`
		Enum  []any             `json:"enum"`
		AnyOf []json.RawMessage `json:"anyOf"`
		OneOf []json.RawMessage `json:"oneOf"`
	}
	if json.Unmarshal(schema, &s) != nil || depth > maxNesting {
		return anyType
	}
	texts, rest := 0, 0
	count := func(isText bool) {
		if isText {
			texts++
		} else {
			rest++
		}
	}
	switch t := s.Type.(type) {
	case string:
		count(t == "string")
	case []any:
		for _, t := range t {
			count(t == "string")
		}
	}
	if s.Type == nil {
		for _, v := range s.Enum {
			_, isText := v.(string)
			count(isText)
		}
		for _, option := range append(s.AnyOf, s.OneOf...) {
			if t := typesOf(option, depth+1); t != anyType {
				count(t == textType)
			} else {
				texts, rest = texts+1, rest+1
			}
		}
	}
	switch {
	case texts > 0 && rest == 0:
		return textType
	case rest > 0 && texts == 0:
		return others
	}
	return anyType
}
