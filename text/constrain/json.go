package constrain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// value is a value of JSON, whose members are in the order of the text.
type value struct {
	kind    valueKind
	text    string // of a string: its content; of a number: as written
	yes     bool   // of a boolean
	items   []*value
	members []member
}

type member struct {
	name  string
	value *value
}

type valueKind uint8

const (
	jsonNull valueKind = iota
	jsonBool
	jsonNumber
	jsonString
	jsonArray
	jsonObject
)

// jsonReader reads values.
type jsonReader struct {
	*json.Decoder
	repeats bool // a name that an object has twice has the last of its values, instead of being an error
	meter   *meter
	left    int // values that there may be
}

// parseJSON parses a text of JSON.
func parseJSON(text []byte, m *meter) (*value, error) {
	if err := m.take(2 * int64(len(text))); err != nil { // the strings, and the decoder's buffer
		return nil, err
	}
	return parseWith(text, &jsonReader{meter: m, left: maxValues})
}

// parseAnswer parses an answer, in which names that the schema does not declare may be repeated.
func parseAnswer(text string, m *meter) (*value, error) {
	if err := m.take(3 * int64(len(text))); err != nil { // as for parseJSON, and the copy
		return nil, err
	}
	return parseWith([]byte(text), &jsonReader{repeats: true, meter: m, left: math.MaxInt})
}

func parseWith(text []byte, d *jsonReader) (*value, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("it is not valid UTF-8")
	}
	d.Decoder = json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := readValue(d, 0)
	if err != nil {
		return nil, fmt.Errorf("byte %d: %w", d.InputOffset(), err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("byte %d: text follows the value", d.InputOffset())
	}
	return v, nil
}

// readValue reads a value.
func readValue(d *jsonReader, depth int) (*value, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("%w: values nest deeper than %d", ErrComplex, maxNesting)
	}
	if d.left--; d.left < 0 {
		return nil, fmt.Errorf("%w: it has more than %d values", ErrComplex, maxValues)
	}
	if err := d.meter.take(valueBytes); err != nil {
		return nil, err
	}
	token, err := d.Token()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	switch t := token.(type) {
	case bool:
		return &value{kind: jsonBool, yes: t}, nil
	case json.Number:
		return &value{kind: jsonNumber, text: t.String()}, nil
	case string:
		return &value{kind: jsonString, text: t}, nil
	case json.Delim:
		if t == '[' {
			return readArray(d, depth)
		}
		return readObject(d, depth)
	}
	return &value{}, nil
}

func readArray(d *jsonReader, depth int) (*value, error) {
	v := &value{kind: jsonArray}
	for d.More() {
		item, err := readValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		v.items = append(v.items, item)
	}
	_, err := d.Token()
	return v, err
}

func readObject(d *jsonReader, depth int) (*value, error) {
	v := &value{kind: jsonObject}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := token.(string)
		if seen[name] && !d.repeats {
			return nil, fmt.Errorf("the name %q is there twice", name)
		}
		inner, err := readValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		if seen[name] {
			v.members = slices.DeleteFunc(v.members, func(m member) bool { return m.name == name })
		}
		seen[name] = true
		v.members = append(v.members, member{name, inner})
	}
	_, err := d.Token()
	return v, err
}

// get returns a member, nil if there is none.
func (v *value) get(name string) *value {
	for i := range v.members {
		if v.members[i].name == name {
			return v.members[i].value
		}
	}
	return nil
}

// at returns the value at a JSON pointer, nil if there is none.
func (v *value) at(pointer string) *value {
	for pointer != "" {
		if pointer[0] != '/' {
			return nil
		}
		name, rest, more := strings.Cut(pointer[1:], "/")
		if pointer = ""; more {
			pointer = "/" + rest
		}
		name = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
		switch v.kind {
		case jsonObject:
			v = v.get(name)
		case jsonArray:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(v.items) {
				return nil
			}
			v = v.items[i]
		default:
			return nil
		}
		if v == nil {
			return nil
		}
	}
	return v
}

// appendTo appends the value as answers have it: without white space, each string in one way, and numbers as number returns them.
func (v *value) appendTo(dst []byte, number func(string) string) []byte {
	switch v.kind {
	case jsonBool:
		return strconv.AppendBool(dst, v.yes)
	case jsonNumber:
		return append(dst, number(v.text)...)
	case jsonString:
		return append(dst, quote(v.text)...)
	case jsonArray:
		dst = append(dst, '[')
		for i, item := range v.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = item.appendTo(dst, number)
		}
		return append(dst, ']')
	case jsonObject:
		dst = append(dst, '{')
		for i, m := range v.members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(append(dst, quote(m.name)...), ':')
			dst = m.value.appendTo(dst, number)
		}
		return append(dst, '}')
	}
	return append(dst, "null"...)
}

// String returns the value with each number in one way.
func (v *value) String() string { return string(v.appendTo(nil, plainNumber)) }

// asWritten returns a number as it is.
func asWritten(text string) string { return text }

// maxPlain is the greatest number of digits of a number that is written without an exponent.
const maxPlain = 400

// plainNumber returns a number without exponent, and without zeros at the ends, as far as it has few digits.
func plainNumber(text string) string {
	d, ok := parseDecimal(text)
	if !ok {
		return text
	}
	return d.String()
}

// decimal is a number: its digits before and behind the point, without zeros at the ends.
type decimal struct {
	negative    bool
	whole, part string // whole is "" below 1
}

// parseDecimal returns the number of a text of JSON. ok is false if it has too many digits.
func parseDecimal(text string) (d decimal, ok bool) {
	d.negative = strings.HasPrefix(text, "-")
	digits, exponent, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(text, "-")), "e")
	shift := 0
	if exponent != "" {
		var err error
		if shift, err = strconv.Atoi(exponent); err != nil {
			return d, false
		}
	}
	whole, part, _ := strings.Cut(digits, ".")
	if len(whole)+len(part) > maxPlain || shift > maxPlain || shift < -maxPlain {
		return d, false
	}
	if shift > 0 {
		part += strings.Repeat("0", max(0, shift-len(part)))
		whole, part = whole+part[:shift], part[shift:]
	} else if shift < 0 {
		whole = strings.Repeat("0", max(0, -shift-len(whole))) + whole
		cut := len(whole) + shift
		whole, part = whole[:cut], whole[cut:]+part
	}
	d.whole, d.part = strings.TrimLeft(whole, "0"), strings.TrimRight(part, "0")
	if d.whole == "" && d.part == "" {
		d.negative = false
	}
	return d, true
}

func (d decimal) String() string {
	text := ""
	if d.negative {
		text = "-"
	}
	if d.whole == "" {
		text += "0"
	}
	text += d.whole
	if d.part != "" {
		text += "." + d.part
	}
	return text
}
