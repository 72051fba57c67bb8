package llmrun

import (
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Into asks for an answer and decodes it: the answer is held to [SchemaOf] T. If the model has a chat template, the prompt is
// a message of the user in the session's conversation, otherwise a text that the answer continues. The prompt should say what is
// wanted; the names of the fields guide the model. Options may be left out; Schema, Regexp and Grammar of them must be.
//
//	type note struct {
//		Title string   `json:"title"`
//		Tags  []string `json:"tags"`
//	}
//	n, err := llmrun.Into[note](ctx, session, "Describe this note: "+text)
func Into[T any](ctx context.Context, s *Session, prompt string, options ...GenerateOptions) (v T, err error) {
	var o GenerateOptions
	if len(options) > 0 {
		o = options[0]
	}
	if o.Schema != "" {
		return v, fmt.Errorf("%w: Into sets Schema by itself", ErrOptions)
	}
	if o.Schema, err = SchemaOf[T](); err != nil {
		return v, err
	}
	pieces := s.Generate(ctx, prompt, o)
	if s.engine.info.HasChatTemplate {
		pieces = s.Chat(ctx, prompt, o)
	}
	var a Answer
	for piece, err := range pieces {
		if err != nil {
			return v, err
		}
		a.Add(&piece)
	}
	if err := json.Unmarshal([]byte(a.Text()), &v); err != nil {
		return v, fmt.Errorf("the answer ended (%s) before it was complete: %w", s.Stats().StopReason, err)
	}
	return v, nil
}

// SchemaOf returns a JSON Schema of the texts that encoding/json decodes into T: structs with the names of their json tags, of which those
// with omitempty or omitzero may be left out, pointers that may be null, slices, arrays, maps with names that are strings,
// numbers, booleans, strings, times, and any. Other types are an error.
func SchemaOf[T any]() (string, error) {
	b := &schemaBuilder{definitions: map[string]any{}, names: map[reflect.Type]string{}}
	root, err := b.schema(reflect.TypeFor[T]())
	if err != nil {
		return "", err
	}
	if len(b.definitions) > 0 {
		root = append(root, orderedMember{"$defs", b.definitions})
	}
	text, err := json.Marshal(root)
	return string(text), err
}

// schemaBuilder makes the schema of a type. Structs and named types are definitions, because they may contain themselves.
type schemaBuilder struct {
	names       map[reflect.Type]string
	definitions map[string]any
}

var (
	timeType          = reflect.TypeFor[time.Time]()
	rawType           = reflect.TypeFor[json.RawMessage]()
	numberType        = reflect.TypeFor[json.Number]()
	jsonUnmarshalType = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshalType = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func typed(name string, more ...orderedMember) ordered {
	return append(ordered{{"type", name}}, more...)
}

// schema returns the schema of a type.
func (b *schemaBuilder) schema(t reflect.Type) (ordered, error) {
	pointer := reflect.PointerTo(t)
	switch {
	case t == timeType:
		return typed("string", orderedMember{"format", "date-time"}), nil
	case t == numberType: // a string that must be a number
		return typed("number"), nil
	case t == rawType:
		return ordered{}, nil
	case t.Kind() == reflect.Interface && t.NumMethod() == 0:
		return ordered{}, nil
	case t.Implements(jsonUnmarshalType) || pointer.Implements(jsonUnmarshalType),
		t.Implements(textUnmarshalType) || pointer.Implements(textUnmarshalType):
		return nil, fmt.Errorf("%w: %v decodes itself, so its schema is not known", ErrOptions, t)
	}
	if t.Kind() == reflect.Struct || t.Name() != "" && slices.Contains(containers, t.Kind()) {
		return b.named(t)
	}
	return b.unnamed(t)
}

// containers are the kinds of types that may contain themselves if they have a name. Structs may too.
var containers = []reflect.Kind{reflect.Slice, reflect.Array, reflect.Map, reflect.Pointer}

// named returns a reference to the definition of a type.
func (b *schemaBuilder) named(t reflect.Type) (reference ordered, err error) {
	name, ok := b.names[t]
	if !ok {
		name = fmt.Sprint(len(b.names))
		b.names[t] = name
		b.definitions[name], err = b.unnamed(t)
	}
	return ordered{{"$ref", "#/$defs/" + name}}, err
}

// unnamed returns the schema of a type of no name.
func (b *schemaBuilder) unnamed(t reflect.Type) (ordered, error) {
	switch t.Kind() {
	case reflect.Bool:
		return typed("boolean"), nil
	case reflect.String:
		return typed("string"), nil
	case reflect.Float32:
		return typed("number", orderedMember{"minimum", -math.MaxFloat32}, orderedMember{"maximum", math.MaxFloat32}), nil
	case reflect.Float64:
		return typed("number"), nil
	case reflect.Int, reflect.Int64:
		return typed("integer"), nil
	case reflect.Int8, reflect.Int16, reflect.Int32:
		edge := int64(1) << (t.Bits() - 1)
		return typed("integer", orderedMember{"minimum", -edge}, orderedMember{"maximum", edge - 1}), nil
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return typed("integer", orderedMember{"minimum", 0}, orderedMember{"maximum", int64(1)<<53 - 1}), nil
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return typed("integer", orderedMember{"minimum", 0}, orderedMember{"maximum", int64(1)<<t.Bits() - 1}), nil
	case reflect.Pointer:
		inner, err := b.schema(t.Elem())
		return ordered{{"anyOf", []ordered{inner, typed("null")}}}, err
	case reflect.Slice, reflect.Array:
		return b.list(t)
	case reflect.Map:
		inner, err := b.schema(t.Elem())
		if t.Key().Kind() != reflect.String {
			err = fmt.Errorf("%w: the names of %v are not strings", ErrOptions, t)
		}
		return typed("object", orderedMember{"additionalProperties", inner}), err
	case reflect.Struct:
		return b.object(t)
	}
	return nil, fmt.Errorf("%w: %v has no schema", ErrOptions, t)
}

// list returns the schema of a slice or an array.
func (b *schemaBuilder) list(t reflect.Type) (ordered, error) {
	if t.Elem().Kind() == reflect.Uint8 && t.Kind() == reflect.Slice { // JSON has it as base64
		return typed("string", orderedMember{"pattern", "^(?:[A-Za-z0-9+/]{4})*$"}), nil
	}
	inner, err := b.schema(t.Elem())
	list := typed("array", orderedMember{"items", inner})
	if t.Kind() == reflect.Array {
		list = append(list, orderedMember{"minItems", t.Len()}, orderedMember{"maxItems", t.Len()})
	}
	return list, err
}

// object returns the schema of a struct.
func (b *schemaBuilder) object(t reflect.Type) (ordered, error) {
	var properties ordered
	required := []string{}
	fields, err := fieldsOfJSON(t)
	if err != nil {
		return nil, err
	}
	for _, f := range fields {
		inner, err := b.schema(f.Type)
		if err != nil {
			return nil, fmt.Errorf("%v.%s: %w", t, f.Name, err)
		}
		properties = append(properties, orderedMember{f.name, inner})
		if !slices.Contains(f.options, "omitempty") && !slices.Contains(f.options, "omitzero") {
			required = append(required, f.name)
		}
		if slices.Contains(f.options, "string") {
			return nil, fmt.Errorf("%w: %v.%s: the option string is not supported", ErrOptions, t, f.Name)
		}
	}
	return typed("object", orderedMember{"properties", properties}, orderedMember{"required", required}, orderedMember{"additionalProperties", false}), nil
}

// jsonField is a field that encoding/json decodes.
type jsonField struct {
	reflect.StructField
	name    string // in JSON
	tagged  bool
	options []string
}

// fieldsOfJSON returns the fields of a struct and of those embedded in it.
func fieldsOfJSON(t reflect.Type) (fields []jsonField, err error) {
	for _, field := range reflect.VisibleFields(t) {
		tag := field.Tag.Get("json")
		name, rest, _ := strings.Cut(tag, ",")
		switch {
		case field.Anonymous && name == "" && field.Type.Kind() == reflect.Struct, tag == "-", !field.IsExported():
			continue // the fields of an embedded struct are visible themselves
		case len(field.Index) > 1 && !embeds(t, field.Index):
			continue
		case field.Anonymous && name == "":
			return nil, fmt.Errorf("%w: the embedded %v is not supported", ErrOptions, field.Type)
		}
		f := jsonField{StructField: field, name: name, tagged: name != "", options: strings.Split(rest, ",")}
		if !f.tagged {
			f.name = field.Name
		}
		fields = append(fields, f)
	}
	// Of fields with the same name, that of the outermost struct has it, among those the one whose tag names it.
	hides := func(f, other *jsonField) bool {
		if len(f.Index) != len(other.Index) {
			return len(f.Index) < len(other.Index)
		}
		return f.tagged || !other.tagged
	}
	all := slices.Clone(fields)
	return slices.DeleteFunc(fields, func(f jsonField) bool {
		return slices.ContainsFunc(all, func(other jsonField) bool {
			return other.name == f.name && !slices.Equal(other.Index, f.Index) && hides(&other, &f)
		})
	}), nil
}

// embeds reports whether the structs on the way to a field are embedded without a name of their own.
func embeds(t reflect.Type, index []int) bool {
	for _, i := range index[:len(index)-1] {
		field := t.Field(i)
		tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if tag != "" || field.Type.Kind() != reflect.Struct {
			return false
		}
		t = field.Type
	}
	return true
}

// ordered is an object of JSON whose members keep their order.
type ordered []orderedMember

type orderedMember struct {
	name  string
	value any
}

// MarshalJSON writes the members in their order.
func (o ordered) MarshalJSON() ([]byte, error) {
	var b strings.Builder
	b.WriteByte('{')
	for i, m := range o {
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return []byte(b.String()), nil
}
