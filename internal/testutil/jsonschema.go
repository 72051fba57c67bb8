package testutil

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/mail"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// JSONSchema decides whether values of JSON are valid in a schema. It interprets the schema with each value, has nothing in
// common with the automaton that it checks, and fails for keywords that it does not know.
type JSONSchema struct{ root any }

// NewJSONSchema parses a schema.
func NewJSONSchema(schema []byte) (*JSONSchema, error) {
	root, err := decodeJSON(schema)
	return &JSONSchema{root}, err
}

func decodeJSON(text []byte) (v any, err error) {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	if err = d.Decode(&v); err == nil && d.More() {
		err = fmt.Errorf("text follows the value in %q", text)
	}
	return v, err
}

// Validate returns an error that names what a text violates.
func (s *JSONSchema) Validate(text string) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("%q is not valid UTF-8", text)
	}
	v, err := decodeJSON([]byte(text))
	if err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	return s.check(s.root, v)
}

// check returns an error if a value is not valid in a schema.
func (s *JSONSchema) check(schema, v any) error {
	if allowed, ok := schema.(bool); ok {
		if !allowed {
			return fmt.Errorf("%v: no value is allowed", v)
		}
		return nil
	}
	keywords := schema.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(keywords)) {
		if err := s.keyword(name, keywords[name], keywords, v); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// keyword checks one keyword.
func (s *JSONSchema) keyword(name string, arg any, schema map[string]any, v any) error {
	wrong := fmt.Errorf("%v is not valid in %v", v, arg)
	verify := func(ok bool) error {
		if ok {
			return nil
		}
		return wrong
	}
	switch name {
	case "$defs", "definitions", "description", "title":
		return nil
	case "$ref":
		return s.check(s.lookup(arg.(string)), v)
	case "type":
		return verify(slices.ContainsFunc(listOf(arg), func(t any) bool { return hasType(t.(string), v) }))
	case "enum":
		return verify(slices.ContainsFunc(arg.([]any), func(one any) bool { return reflect.DeepEqual(number(one), number(v)) }))
	case "const":
		return verify(reflect.DeepEqual(number(arg), number(v)))
	case "anyOf", "oneOf", "allOf":
		return s.combined(name, arg.([]any), v)
	}
	switch v := v.(type) {
	case json.Number:
		return numberKeyword(name, arg, v)
	case string:
		return stringKeyword(name, arg, v)
	case []any:
		return s.listKeyword(name, arg, schema, v)
	case map[string]any:
		return s.objectKeyword(name, arg, schema, v)
	}
	return nil
}

func (s *JSONSchema) lookup(ref string) any {
	at := s.root
	for _, name := range strings.Split(strings.TrimPrefix(ref, "#"), "/")[1:] {
		at = at.(map[string]any)[name]
	}
	return at
}

func listOf(v any) []any {
	if list, ok := v.([]any); ok {
		return list
	}
	return []any{v}
}

// number makes numbers in a value comparable.
func number(v any) any {
	switch v := v.(type) {
	case json.Number:
		x, _ := new(big.Rat).SetString(v.String())
		return x.RatString()
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = []any{"item", number(v[i])}
		}
		return list
	case map[string]any:
		all := map[string]any{}
		for name := range v {
			all[name] = number(v[name])
		}
		return all
	case string:
		return "text " + v
	}
	return v
}

func hasType(name string, v any) bool {
	switch v := v.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case []any:
		return name == "array"
	case json.Number:
		x, _ := new(big.Rat).SetString(v.String())
		return name == "number" || name == "integer" && x.IsInt()
	}
	return name == "object"
}

func (s *JSONSchema) combined(name string, schemas []any, v any) error {
	valid := 0
	var last error
	for _, schema := range schemas {
		if err := s.check(schema, v); err != nil {
			last = err
		} else {
			valid++
		}
	}
	if name == "anyOf" && valid > 0 || name == "oneOf" && valid == 1 || name == "allOf" && valid == len(schemas) {
		return nil
	}
	return fmt.Errorf("%v: %d of %d schemas are met; %w", v, valid, len(schemas), last)
}

func numberKeyword(name string, arg any, v json.Number) error {
	x, _ := new(big.Rat).SetString(v.String())
	bound, ok := new(big.Rat).SetString(fmt.Sprint(arg))
	if !ok {
		if slices.Contains([]string{"int32", "int64"}, fmt.Sprint(arg)) {
			return nil
		}
		return unknownFor(name, "number", "minLength", "maxLength", "pattern", "items", "maxItems", "minItems", "prefixItems", "properties", "required", "additionalProperties")
	}
	c := x.Cmp(bound)
	valid := map[string]bool{"minimum": c >= 0, "maximum": c <= 0, "exclusiveMinimum": c > 0, "exclusiveMaximum": c < 0}
	if name == "multipleOf" {
		valid[name] = new(big.Rat).Quo(x, bound).IsInt()
	}
	if ok, known := valid[name]; known && !ok {
		return fmt.Errorf("%v is not valid in %v", v, arg)
	} else if known {
		return nil
	}
	return unknownFor(name, "number", "minLength", "maxLength", "maxItems", "minItems")
}

// unknownFor returns an error for a keyword that is not among those about other types.
func unknownFor(name, kind string, others ...string) error {
	if slices.Contains(others, name) {
		return nil
	}
	return fmt.Errorf("the validator does not know the keyword for a %s", kind)
}

func stringKeyword(name string, arg any, v string) error {
	length := big.NewRat(int64(utf8.RuneCountInString(v)), 1)
	var valid bool
	switch name {
	case "minLength", "maxLength":
		bound, _ := new(big.Rat).SetString(fmt.Sprint(arg))
		c := length.Cmp(bound)
		valid = name == "minLength" && c >= 0 || name == "maxLength" && c <= 0
	case "pattern":
		valid = regexp.MustCompile(arg.(string)).MatchString(v)
	case "format":
		valid = hasFormat(arg.(string), v)
	default:
		return unknownFor(name, "string", "minimum", "maximum", "items", "maxItems", "minItems")
	}
	if !valid {
		return fmt.Errorf("%q is not valid in %v", v, arg)
	}
	return nil
}

var (
	uuidForm     = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	hostForm     = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$`)
	durationForm = regexp.MustCompile(`^P(\d+W|(\d+Y)?(\d+M)?(\d+D)?(T(\d+H)?(\d+M)?(\d+S)?)?)$`)
)

func hasFormat(name, v string) bool {
	parses := func(layout string) bool { _, err := time.Parse(layout, v); return err == nil }
	switch name {
	case "date":
		return parses(time.DateOnly)
	case "date-time":
		return parses(time.RFC3339)
	case "time":
		return parses("15:04:05Z07:00")
	case "duration":
		return durationForm.MatchString(v) && v != "P" && !strings.HasSuffix(v, "T")
	case "email":
		a, err := mail.ParseAddress(v)
		return err == nil && a.Address == v
	case "hostname":
		return len(v) <= 253 && hostForm.MatchString(v)
	case "ipv4", "ipv6":
		a, err := netip.ParseAddr(v)
		return err == nil && a.Is4() == (name == "ipv4")
	case "uri":
		u, err := url.Parse(v)
		return err == nil && u.IsAbs()
	case "uuid":
		return uuidForm.MatchString(v)
	}
	return false
}

func (s *JSONSchema) listKeyword(name string, arg any, schema map[string]any, v []any) error {
	prefix, _ := schema["prefixItems"].([]any)
	switch name {
	case "minItems", "maxItems":
		n, _ := arg.(json.Number).Int64()
		if name == "minItems" && len(v) < int(n) || name == "maxItems" && len(v) > int(n) {
			return fmt.Errorf("%d items are not valid in %v", len(v), arg)
		}
	case "prefixItems":
		for i := range min(len(prefix), len(v)) {
			if err := s.check(prefix[i], v[i]); err != nil {
				return err
			}
		}
	case "items":
		for i := len(prefix); i < len(v); i++ {
			if err := s.check(arg, v[i]); err != nil {
				return err
			}
		}
	default:
		return unknownFor(name, "list", "minimum", "maximum", "minLength", "maxLength")
	}
	return nil
}

func (s *JSONSchema) objectKeyword(name string, arg any, schema map[string]any, v map[string]any) error {
	declared, _ := schema["properties"].(map[string]any)
	switch name {
	case "required":
		for _, needed := range arg.([]any) {
			if _, ok := v[needed.(string)]; !ok {
				return fmt.Errorf("%v is missing in %v", needed, v)
			}
		}
	case "properties", "additionalProperties":
		for property, inner := range v {
			expected, ok := declared[property]
			if ok != (name == "properties") {
				continue
			}
			if !ok {
				expected = arg
			}
			if err := s.check(expected, inner); err != nil {
				return fmt.Errorf("%q: %w", property, err)
			}
		}
	default:
		return fmt.Errorf("the validator does not know the keyword for an object")
	}
	return nil
}
