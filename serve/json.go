package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds the nesting of objects and lists in a body. Requests of clients nest about ten deep, in schemas of
// tools.
const maxDepth = 64

// maxValues bounds the names and the values in a body that are no numbers: each takes up to 200 bytes of memory when it is
// read, whatever its length. Conversations have five for each message.
const maxValues = 20000

// checkJSON refuses text that is not one well-formed JSON object in UTF-8, that nests deeper than maxDepth, that has more
// than maxValues, or that has two values for one name. encoding/json would take the last of them, and a proxy before the
// server perhaps the first.
func checkJSON(body []byte) error {
	if !utf8.Valid(body) {
		return errors.New("the body is not valid UTF-8")
	}
	c := &checker{Decoder: json.NewDecoder(bytes.NewReader(body))}
	c.UseNumber()
	token, err := c.Token()
	if err != nil {
		return syntaxError(err)
	}
	if token != json.Delim('{') {
		return errors.New("the body must be a JSON object")
	}
	if err := c.object(1); err != nil {
		return err
	}
	if _, err := c.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more behind the JSON object of the body")
	}
	return nil
}

// checker reads a body once.
type checker struct {
	*json.Decoder
	values int
}

// count counts a name or a value.
func (c *checker) count() error {
	if c.values++; c.values > maxValues {
		return fmt.Errorf("the body has more than %d names and values", maxValues)
	}
	return nil
}

// object checks the members of an object whose opening brace is read.
func (c *checker) object(depth int) error {
	names := map[string]struct{}{}
	for c.More() {
		token, err := c.Token()
		if err != nil {
			return syntaxError(err)
		}
		name, _ := token.(string) // the decoder accepts nothing else
		if _, twice := names[name]; twice {
			return fmt.Errorf("the body has the name %q twice in one object", shorten(name))
		}
		names[name] = struct{}{}
		if err := c.count(); err != nil {
			return err
		}
		if err := c.value(depth); err != nil {
			return err
		}
	}
	return c.closing()
}

// value checks a value inside of depth objects and lists.
func (c *checker) value(depth int) error {
	token, err := c.Token()
	if err != nil {
		return syntaxError(err)
	}
	if _, number := token.(json.Number); number {
		return nil
	}
	if err := c.count(); err != nil {
		return err
	}
	if _, nested := token.(json.Delim); !nested {
		return nil
	}
	if depth == maxDepth {
		return fmt.Errorf("the body nests more than %d levels deep", maxDepth)
	}
	if token == json.Delim('{') {
		return c.object(depth + 1)
	}
	for c.More() {
		if err := c.value(depth + 1); err != nil {
			return err
		}
	}
	return c.closing()
}

// closing reads the end of an object or list.
func (c *checker) closing() error {
	if _, err := c.Token(); err != nil {
		return syntaxError(err)
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
	fields map[string]json.RawMessage
	path   string // of the object in the request, with a dot behind it; "" for the request
	first  *error // shared with the objects inside
}

// newObject returns the object of a body that checkJSON has accepted.
func newObject(body []byte) *object {
	o := &object{first: new(error)}
	if json.Unmarshal(body, &o.fields) != nil {
		*o.first = errors.New("the body must be a JSON object")
	}
	return o
}

func (o *object) err() error { return *o.first }

// fail remembers that a field is wrong.
func (o *object) fail(name, problem string) {
	if *o.first == nil {
		*o.first = &fieldError{o.path + name, problem}
	}
}

// has reports whether a field is there and not null.
func (o *object) has(name string) bool {
	raw, ok := o.fields[name]
	return ok && !bytes.Equal(raw, []byte("null"))
}

// need fails if a field is missing or null.
func (o *object) need(name string) {
	if !o.has(name) {
		o.fail(name, "is missing")
	}
}

// read decodes a field that has the type of target, and reports whether it is there.
func (o *object) read(name, kind string, target any) bool {
	if !o.has(name) {
		return false
	}
	if json.Unmarshal(o.fields[name], target) != nil {
		o.fail(name, "must be "+kind)
		return false
	}
	return true
}

func (o *object) text(name string) (text string) {
	o.read(name, "a string", &text)
	return text
}

// optional returns a text, or nil if the field is missing.
func (o *object) optional(name string) *string {
	var text string
	if !o.read(name, "a string", &text) {
		return nil
	}
	return &text
}

func (o *object) boolean(name string, fallback bool) bool {
	o.read(name, "true or false", &fallback)
	return fallback
}

// number returns a number from low to high, or nil if the field is missing.
func (o *object) number(name string, low, high float64) *float32 {
	var x float64
	if !o.read(name, "a number", &x) {
		return nil
	}
	if x < low || x > high {
		o.fail(name, fmt.Sprintf("is %v; it must be from %v to %v", x, low, high))
		return nil
	}
	narrow := float32(x)
	return &narrow
}

// whole returns a whole number from low to high, or nil if the field is missing. It may be written as 1.0.
func (o *object) whole(name string, low, high int64) *int64 {
	var x json.Number
	if !o.has(name) {
		return nil
	}
	if o.fields[name][0] == '"' || json.Unmarshal(o.fields[name], &x) != nil {
		o.fail(name, "must be a whole number")
		return nil
	}
	n, err := x.Int64()
	if err != nil {
		f, err := x.Float64()
		if err != nil || f != math.Trunc(f) {
			o.fail(name, fmt.Sprintf("is %s; it must be a whole number from %d to %d", shorten(x.String()), low, high))
			return nil
		}
		n = int64(min(max(f, math.MinInt64/2), math.MaxInt64/2))
	}
	if n < low || n > high {
		o.fail(name, fmt.Sprintf("is %s; it must be a whole number from %d to %d", shorten(x.String()), low, high))
		return nil
	}
	return &n
}

// texts returns a list of strings, for which a single string may stand.
func (o *object) texts(name string) (list []string) {
	if !o.has(name) {
		return nil
	}
	if o.fields[name][0] == '"' {
		return []string{o.text(name)}
	}
	o.read(name, "a string or a list of strings", &list)
	return list
}

// inner returns the object in a field, without fields if it is missing.
func (o *object) inner(name string) *object {
	i := &object{path: o.path + name + ".", first: o.first}
	o.read(name, "an object", &i.fields)
	return i
}

// list returns the objects of a list.
func (o *object) list(name string) (all []*object) {
	var raw []json.RawMessage
	o.read(name, "a list of objects", &raw)
	for i := range raw {
		item := &object{path: fmt.Sprintf("%s%s[%d].", o.path, name, i), first: o.first}
		if json.Unmarshal(raw[i], &item.fields) != nil || item.fields == nil {
			o.fail(fmt.Sprintf("%s[%d]", name, i), "must be an object")
			return nil
		}
		all = append(all, item)
	}
	return all
}

// values returns an object of any values, for variables of a template.
func (o *object) values(name string) (v map[string]any) {
	o.read(name, "an object", &v)
	return v
}

// refuse fails if a field asks for something that the server does not do. Empty lists, empty strings, empty objects, false and null
// ask for nothing.
func (o *object) refuse(name, why string) {
	if !o.has(name) {
		return
	}
	switch strings.TrimSpace(string(o.fields[name])) {
	case "[]", "{}", `""`, "false":
	default:
		o.fail(name, why)
	}
}
