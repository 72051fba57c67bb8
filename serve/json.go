package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds the nesting of objects and lists in a body. Requests of clients nest about ten deep, in schemas of
// tools.
const maxDepth = 64

// maxValues bounds the names and the values in a body that are no numbers: each takes up to 200 bytes of memory when it is
// read, whatever its length. Conversations have five for each message.
const maxValues = 20000

// value is a value of a body, which is parsed once.
type value struct {
	kind   kind
	text   string           // what a text says; true and false, and numbers, as the body spells them
	raw    json.RawMessage  // objects and lists as the body spells them; part of the body
	fields map[string]value // of an object
	items  []value          // of a list, before its first number
	rest   bool             // the list has a number, and what follows it is only in raw: a body can have a number for two of its bytes
}

type kind byte

const (
	isNull   kind = iota
	isText   kind = '"'
	isNumber kind = '0'
	isBool   kind = 't'
	isObject kind = '{'
	isList   kind = '['
)

// parseJSON returns the members of a body. It refuses text that is not one well-formed JSON object in UTF-8, that nests deeper than
// maxDepth, that has more than maxValues, or that has two values for one name. encoding/json would take the last of them, and a proxy before
// the server perhaps the first.
func parseJSON(body []byte) (map[string]value, error) {
	if !utf8.Valid(body) {
		return nil, errors.New("the body is not valid UTF-8")
	}
	p := &bodyParser{Decoder: json.NewDecoder(bytes.NewReader(body)), body: body}
	p.UseNumber()
	token, err := p.Token()
	if err != nil {
		return nil, syntaxError(err)
	}
	if token != json.Delim('{') {
		return nil, errors.New("the body must be a JSON object")
	}
	fields, err := p.object(1)
	if err != nil {
		return nil, err
	}
	if _, err := p.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more behind the JSON object of the body")
	}
	return fields, nil
}

// bodyParser reads a body once.
type bodyParser struct {
	*json.Decoder
	body   []byte
	values int
}

// count counts a name or a value.
func (p *bodyParser) count() error {
	if p.values++; p.values > maxValues {
		return fmt.Errorf("the body has more than %d names and values", maxValues)
	}
	return nil
}

// object reads the members of an object whose opening brace is read.
func (p *bodyParser) object(depth int) (map[string]value, error) {
	fields := map[string]value{}
	for p.More() {
		token, err := p.Token()
		if err != nil {
			return nil, syntaxError(err)
		}
		name, _ := token.(string) // the decoder accepts nothing else
		if _, twice := fields[name]; twice {
			return nil, fmt.Errorf("the body has the name %q twice in one object", shorten(name))
		}
		if err := p.count(); err != nil {
			return nil, err
		}
		if fields[name], err = p.value(depth); err != nil {
			return nil, err
		}
	}
	return fields, p.closing()
}

// list reads the items of a list whose opening bracket is read.
func (p *bodyParser) list(depth int) (items []value, rest bool, err error) {
	for p.More() {
		item, err := p.value(depth)
		if err != nil {
			return nil, false, err
		}
		if rest = rest || item.kind == isNumber; !rest {
			items = append(items, item)
		}
	}
	return items, rest, p.closing()
}

// value reads a value inside of depth objects and lists.
func (p *bodyParser) value(depth int) (v value, err error) {
	token, err := p.Token()
	if err != nil {
		return v, syntaxError(err)
	}
	if number, ok := token.(json.Number); ok {
		return value{kind: isNumber, text: number.String()}, nil
	}
	if err := p.count(); err != nil {
		return v, err
	}
	switch token := token.(type) {
	case string:
		return value{kind: isText, text: token}, nil
	case bool:
		return value{kind: isBool, text: strconv.FormatBool(token)}, nil
	case json.Delim:
		if depth == maxDepth {
			return v, fmt.Errorf("the body nests more than %d levels deep", maxDepth)
		}
		begin := p.InputOffset() - 1
		if v.kind = kind(token); v.kind == isObject {
			v.fields, err = p.object(depth + 1)
		} else {
			v.items, v.rest, err = p.list(depth + 1)
		}
		v.raw = p.body[begin:p.InputOffset()]
		return v, err
	}
	return v, nil
}

// closing reads the end of an object or list.
func (p *bodyParser) closing() error {
	if _, err := p.Token(); err != nil {
		return syntaxError(err)
	}
	return nil
}

// any returns the value for a template, or to be repeated.
func (v *value) any() (all any) {
	switch v.kind {
	case isText:
		return v.text
	case isBool:
		return v.text == "true"
	case isNumber:
		x, _ := strconv.ParseFloat(v.text, 64) // one that is too large is the greatest
		return min(max(x, -math.MaxFloat64), math.MaxFloat64)
	case isObject:
		fields := make(map[string]any, len(v.fields))
		for name, field := range v.fields {
			fields[name] = field.any()
		}
		return fields
	case isList:
		if v.rest {
			_ = json.Unmarshal(v.raw, &all) // without numbers that are too large
			return all
		}
		items := make([]any, len(v.items))
		for i := range v.items {
			items[i] = v.items[i].any()
		}
		return items
	}
	return nil
}

func syntaxError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the JSON of the body ends too early")
	}
	return fmt.Errorf("the body is not valid JSON: %w", err)
}

// shorten bounds what an error message repeats of a request.
func shorten(text string) string {
	const most = 80
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// fieldError reports a field of a request that has a wrong type or value.
type fieldError struct {
	field   string // as the request spells it, such as "messages[0].role"
	problem string
}

func (e *fieldError) Error() string { return e.field + " " + e.problem }

// object reads the fields of a JSON object by their exact names. It remembers the first field that is wrong, so that callers
// check once, with err; the others then have their zero values. A missing field and null are the same.
type object struct {
	fields map[string]value
	path   string // of the object in the request, with a dot behind it; "" for the request
	first  *error // shared with the objects inside
}

func (o *object) err() error { return *o.first }

// fail remembers that a field is wrong.
func (o *object) fail(name, problem string) {
	if *o.first == nil {
		*o.first = &fieldError{o.path + name, problem}
	}
}

// has reports whether a field is there and not null.
func (o *object) has(name string) bool { return o.kind(name) != isNull }

// kind returns what a field is; null if it is missing.
func (o *object) kind(name string) kind { return o.fields[name].kind }

// raw returns an object or a list as the body spells it. It is part of the body.
func (o *object) raw(name string) json.RawMessage { return o.fields[name].raw }

// need fails if a field is missing or null.
func (o *object) need(name string) {
	if !o.has(name) {
		o.fail(name, "is missing")
	}
}

// read returns a field that must have a type, and whether it is there.
func (o *object) read(name string, want kind, description string) (v value, ok bool) {
	if v = o.fields[name]; v.kind == isNull {
		return v, false
	}
	if v.kind != want {
		o.fail(name, "must be "+description)
		return v, false
	}
	return v, true
}

func (o *object) text(name string) string {
	v, ok := o.read(name, isText, "a string")
	if !ok {
		return ""
	}
	return v.text
}

// optional returns a text, or nil if the field is missing.
func (o *object) optional(name string) *string {
	v, ok := o.read(name, isText, "a string")
	if !ok {
		return nil
	}
	return &v.text
}

func (o *object) boolean(name string, fallback bool) bool {
	v, ok := o.read(name, isBool, "true or false")
	if !ok {
		return fallback
	}
	return v.text == "true"
}

// number returns a number from low to high, or nil if the field is missing.
func (o *object) number(name string, low, high float64) *float32 {
	v, ok := o.read(name, isNumber, "a number")
	if !ok {
		return nil
	}
	x, err := strconv.ParseFloat(v.text, 64)
	switch {
	case err != nil:
		o.fail(name, "must be a number")
		return nil
	case x < low || x > high:
		o.fail(name, fmt.Sprintf("is %v; it must be from %v to %v", x, low, high))
		return nil
	}
	narrow := float32(x)
	return &narrow
}

// whole returns a whole number from low to high, or nil if the field is missing. It may be written as 1.0.
func (o *object) whole(name string, low, high int64) *int64 {
	v, ok := o.read(name, isNumber, "a whole number")
	if !ok {
		return nil
	}
	n, err := strconv.ParseInt(v.text, 10, 64)
	if err != nil {
		f, err := strconv.ParseFloat(v.text, 64)
		if err != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<63 {
			o.fail(name, fmt.Sprintf("is %s; it must be a whole number from %d to %d", shorten(v.text), low, high))
			return nil
		}
		n = int64(f)
	}
	if n < low || n > high {
		o.fail(name, fmt.Sprintf("is %s; it must be a whole number from %d to %d", shorten(v.text), low, high))
		return nil
	}
	return &n
}

// texts returns a list of strings, for which a single string may stand.
func (o *object) texts(name string) (list []string) {
	const description = "a string or a list of strings"
	if o.kind(name) == isText {
		return []string{o.text(name)}
	}
	v, ok := o.read(name, isList, description)
	if !ok {
		return nil
	}
	for _, item := range v.items {
		if item.kind != isText {
			o.fail(name, "must be "+description)
		}
		list = append(list, item.text)
	}
	if v.rest {
		o.fail(name, "must be "+description)
	}
	return list
}

// inner returns the object in a field, without fields if it is missing.
func (o *object) inner(name string) *object {
	v, _ := o.read(name, isObject, "an object")
	return &object{path: o.path + name + ".", first: o.first, fields: v.fields}
}

// list returns the objects of a list.
func (o *object) list(name string) (all []*object) {
	v, _ := o.read(name, isList, "a list of objects")
	for i := range v.items {
		if v.items[i].kind != isObject {
			o.fail(fmt.Sprintf("%s[%d]", name, i), "must be an object")
			return nil
		}
		all = append(all, &object{path: fmt.Sprintf("%s%s[%d].", o.path, name, i), first: o.first, fields: v.items[i].fields})
	}
	if v.rest {
		o.fail(fmt.Sprintf("%s[%d]", name, len(v.items)), "must be an object")
		return nil
	}
	return all
}

// tokens returns a list of token ids.
func (o *object) tokens(name string) []int32 {
	const description = "a list of token ids"
	v, ok := o.read(name, isList, description)
	if !ok {
		return nil
	}
	ids, ok := v.tokens()
	if !ok && (v.rest || len(v.items) > 0) {
		o.fail(name, "must be "+description)
	}
	return ids
}

// tokens decodes a list of token ids; ok is false if the value is something else, or empty.
func (v *value) tokens() (ids []int32, ok bool) {
	if !v.rest || len(v.items) > 0 {
		return nil, false
	}
	err := json.Unmarshal(v.raw, &ids)
	return ids, err == nil
}

// values returns an object of any values, for variables of a template.
func (o *object) values(name string) map[string]any {
	v, ok := o.read(name, isObject, "an object")
	if !ok {
		return nil
	}
	all, _ := v.any().(map[string]any)
	return all
}

// refuse fails if a field asks for something that the server does not do. Empty lists, empty strings, empty objects, false and null
// ask for nothing.
func (o *object) refuse(name, why string) {
	v := o.fields[name]
	asks := map[kind]bool{
		isNumber: true, isText: v.text != "", isBool: v.text == "true",
		isObject: len(v.fields) > 0, isList: v.rest || len(v.items) > 0,
	}
	if asks[v.kind] {
		o.fail(name, why)
	}
}

// textOrTokens is a text, or token ids.
type textOrTokens struct {
	text string
	ids  []int32 // nil: the text
}

// read reads the value; ok is false if it is neither.
func (t *textOrTokens) read(v *value) (ok bool) {
	if v.kind == isText {
		t.text = v.text
		return true
	}
	t.ids, ok = v.tokens()
	return ok
}

// textsOrTokens returns a field that is a text, a list of token ids, or a list of at most most of these.
func (o *object) textsOrTokens(name string, most int) []textOrTokens {
	if o.need(name); !o.has(name) {
		return nil
	}
	v := o.fields[name]
	one := make([]textOrTokens, 1)
	if one[0].read(&v) {
		return one
	}
	all := make([]textOrTokens, min(len(v.items), most))
	for i := range all {
		if !all[i].read(&v.items[i]) {
			all = nil
			break
		}
	}
	if len(all) == 0 || v.rest || len(v.items) > most {
		o.fail(name, textsOrTokensProblem(most))
		return nil
	}
	return all
}

func textsOrTokensProblem(most int) string {
	return fmt.Sprintf("must be a text, a list of token ids, or a list of at most %d of these", most)
}
