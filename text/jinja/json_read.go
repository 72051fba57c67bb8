package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
)

// Object is a JSON object that preserves the order of its keys, because tojson exposes
// the order. The zero value is an empty object.
type Object struct {
	keys   []string
	values map[string]any
}

// Set adds key, or replaces its value and preserves its position.
func (o *Object) Set(key string, v any) {
	if _, ok := o.values[key]; !ok {
		o.keys = append(o.keys, key)
	}
	if o.values == nil {
		o.values = map[string]any{}
	}
	o.values[key] = v
}

// Get returns the value of key. The result is false if the object has no such key.
func (o *Object) Get(key string) (any, bool) {
	v, ok := o.values[key]
	return v, ok
}

// Keys returns the keys in order. The caller must not modify the result.
func (o *Object) Keys() []string { return o.keys }

// DecodeJSON decodes one JSON value. An object becomes an *Object, an array a []any and
// a number a json.Number. Duplicate keys and data after the value are errors.
func DecodeJSON(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := decodeValue(d, "", 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, inputErrorf("", "unexpected data after the JSON value at byte %d", d.InputOffset())
	}
	return v, nil
}

// decodeValue decodes the next value. field is its path for error messages.
func decodeValue(d *json.Decoder, field string, depth int) (any, error) {
	if depth > maxValueDepth {
		return nil, inputErrorf(field, "JSON nests deeper than %d", maxValueDepth)
	}
	token, err := d.Token()
	if err != nil {
		return nil, jsonError(d, field, err)
	}
	delim, ok := token.(json.Delim)
	switch {
	case !ok:
		return token, nil
	case delim == '[':
		return decodeArray(d, field, depth)
	case delim == '{':
		return decodeObject(d, field, depth)
	}
	return nil, inputErrorf(field, "unexpected %q at byte %d", delim.String(), d.InputOffset())
}

// decodeArray decodes the items after the opening bracket.
func decodeArray(d *json.Decoder, field string, depth int) (any, error) {
	items := []any{}
	for d.More() {
		item, err := decodeValue(d, field+"["+strconv.Itoa(len(items))+"]", depth+1)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	if _, err := d.Token(); err != nil {
		return nil, jsonError(d, field, err)
	}
	return items, nil
}

// decodeObject decodes the pairs after the opening brace. A duplicate key is an error,
// because JSON readers disagree about which value applies.
func decodeObject(d *json.Decoder, field string, depth int) (any, error) {
	o := &Object{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, jsonError(d, field, err)
		}
		key, ok := token.(string)
		if !ok {
			return nil, inputErrorf(field, "a key at byte %d is not a string", d.InputOffset())
		}
		if _, double := o.Get(key); double {
			return nil, inputErrorf(field, "the key %q is a duplicate", key)
		}
		v, err := decodeValue(d, strings.TrimPrefix(field+"."+key, "."), depth+1)
		if err != nil {
			return nil, err
		}
		o.Set(key, v)
	}
	if _, err := d.Token(); err != nil {
		return nil, jsonError(d, field, err)
	}
	return o, nil
}

// jsonError converts an error of the decoder. It distinguishes truncated from malformed
// JSON.
func jsonError(d *json.Decoder, field string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return inputErrorf(field, "the JSON is truncated")
	}
	return inputErrorf(field, "malformed JSON at byte %d: %v", d.InputOffset(), err)
}

// DecodeMessages decodes a conversation: a JSON array of messages. Each message is an
// object with a role and with a content (a text, null or a list of parts) or another
// field such as tool_calls. The template can access all fields of a message.
func DecodeMessages(data []byte) ([]any, error) {
	v, err := DecodeJSON(data)
	if err != nil {
		return nil, err
	}
	return checkMessages("messages", v)
}

// DecodeConversation decodes an array of messages or an object as in a chat request.
// The object has the fields messages, tools, documents, add_generation_prompt and
// chat_template_kwargs; any other field is an error. add_generation_prompt defaults to
// true.
func DecodeConversation(data []byte) (Input, error) {
	in := Input{AddGenerationPrompt: true}
	v, err := DecodeJSON(data)
	if err != nil {
		return in, err
	}
	o, ok := v.(*Object)
	if !ok {
		in.Messages, err = checkMessages("messages", v)
		return in, err
	}
	for _, key := range o.Keys() {
		v, _ := o.Get(key)
		if err := in.setField(key, v); err != nil {
			return in, err
		}
	}
	if in.Messages == nil {
		return in, inputErrorf("messages", "missing")
	}
	return in, nil
}

// setField sets the field of Input for one key of a conversation object.
func (in *Input) setField(key string, v any) (err error) {
	items, isArray := v.([]any)
	switch key {
	case "messages":
		in.Messages, err = checkMessages(key, v)
		return err
	case "tools", "documents":
		if !isArray && v != nil {
			return inputErrorf(key, "must be an array, not %s", jsonType(v))
		}
		if key == "tools" {
			in.Tools = items
		} else {
			in.Documents = items
		}
	case "add_generation_prompt":
		flag, ok := v.(bool)
		if !ok {
			return inputErrorf(key, "must be true or false, not %s", jsonType(v))
		}
		in.AddGenerationPrompt = flag
	case "chat_template_kwargs":
		o, ok := v.(*Object)
		if !ok {
			return inputErrorf(key, "must be an object, not %s", jsonType(v))
		}
		in.Extra = map[string]any{}
		for _, name := range o.Keys() {
			in.Extra[name], _ = o.Get(name)
		}
	default:
		return inputErrorf(key, "unknown field; put extra variables of a template into chat_template_kwargs")
	}
	return nil
}

// checkMessages checks the fields that every template requires.
func checkMessages(field string, v any) ([]any, error) {
	items, ok := v.([]any)
	if !ok {
		return nil, inputErrorf(field, "must be an array of messages, not %s", jsonType(v))
	}
	for i, item := range items {
		if err := checkMessage(field+"["+strconv.Itoa(i)+"]", item); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// checkMessage checks one message. The error names the missing or invalid field.
func checkMessage(field string, v any) error {
	o, ok := v.(*Object)
	if !ok {
		return inputErrorf(field, "must be an object, not %s", jsonType(v))
	}
	role, ok := o.Get("role")
	if !ok {
		return inputErrorf(field+".role", "missing")
	}
	if text, ok := role.(string); !ok || text == "" {
		return inputErrorf(field+".role", "must be a string such as \"user\", not %s", jsonType(role))
	}
	content, ok := o.Get("content")
	if !ok {
		// An assistant message may consist of tool calls or reasoning without content.
		if len(o.Keys()) == 1 {
			return inputErrorf(field+".content", "missing")
		}
		return nil
	}
	switch content.(type) {
	case string, nil, []any, *Object:
		return nil
	}
	return inputErrorf(field+".content", "must be a string or a list of parts, not %s", jsonType(content))
}

// jsonType returns the type of a decoded value for error messages.
func jsonType(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case string:
		if v == "" {
			return "an empty string"
		}
		return "a string"
	case []any:
		return "an array"
	}
	return "an object"
}
