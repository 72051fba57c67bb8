package serve

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBodiesAreChecked checks which bodies are refused before a field is read.
func TestBodiesAreChecked(t *testing.T) {
	deep := func(n int) string {
		return `{"a":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + `}`
	}
	for _, c := range []struct{ name, body, problem string }{
		{"object", `{"a":[1,{"b":null}],"c":{"a":1}} `, ""},
		{"deepest", deep(maxDepth), ""},
		{"deeper", deep(maxDepth + 1), "nests more than 64 levels"},
		{"far deeper", strings.Repeat(`{"a":`, 100000), "nests more than 64 levels"},
		{"many numbers", `{"a":[` + strings.Repeat("1,", 100000) + `1]}`, ""},
		{"many objects", `{"a":[` + strings.Repeat("{},", maxValues) + `{}]}`, "more than 20000 names and values"},
		{"many texts", `{"a":["` + strings.Repeat(`","`, maxValues) + `"]}`, "more than 20000 names and values"},
		{"many names", `{` + manyNames(maxValues) + `"a":1}`, "more than 20000 names and values"},
		{"same name in two objects", `{"a":{"x":1},"b":{"x":1}}`, ""},
		{"duplicate", `{"a":1,"a":2}`, `the name "a" twice`},
		{"duplicate inside", `{"m":[{"role":"user","role":"system"}]}`, `the name "role" twice`},
		{"duplicate by an escape", `{"a":1,"\u0061":2}`, `the name "a" twice`},
		{"invalid UTF-8", "{\"a\":\"\xff\"}", "not valid UTF-8"},
		{"empty", "", "ends too early"},
		{"truncated", `{"a":`, "ends too early"},
		{"list", `[]`, "must be a JSON object"},
		{"text", `"a"`, "must be a JSON object"},
		{"two values", `{} {}`, "more behind"},
		{"trailing comma", `{"a":1,}`, "not valid JSON"},
		{"not a number", `{"a":NaN}`, "not valid JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseJSON([]byte(c.body))
			if c.problem == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.problem)
			}
		})
	}
}

// TestBodiesAreParsedOnce checks that objects and lists are parts of the body, however deep they are, and not parsed again.
func TestBodiesAreParsedOnce(t *testing.T) {
	body := []byte(`{"a":{"b":[ {"schema" : {"type": "object", "x": [1, "\u00e9", null, {}]}} ]}, "n":[1,2,{"a":1}],"ids":[3,4],"kwargs":{"x":[1,true,"t",[{}]],"big":1e999}}`)
	o := newObject(body)
	item := o.inner("a").list("b")[0]
	raw := item.raw("schema")
	require.Equal(t, `{"type": "object", "x": [1, "\u00e9", null, {}]}`, string(raw))
	require.Same(t, &body[strings.Index(string(body), `{"type`)], &raw[0])
	require.Equal(t, []int32{3, 4}, o.tokens("ids"))
	require.Equal(t, map[string]any{"x": []any{1.0, true, "t", []any{map[string]any{}}}, "big": math.MaxFloat64}, o.values("kwargs"))
	require.NoError(t, o.err())
	for read, want := range map[string]string{"list": "n[0] must be an object", "texts": "n must be a string or a list of strings", "tokens": "n must be a list of token ids"} {
		o := newObject(body)
		map[string]func(){"list": func() { o.list("n") }, "texts": func() { o.texts("n") }, "tokens": func() { o.tokens("n") }}[read]()
		require.EqualError(t, o.err(), want)
	}
}

// manyNames returns members of an object.
func manyNames(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `"%d":1,`, i)
	}
	return text.String()
}

// TestFieldsHaveTypes checks that a field of a wrong type or value is named with its path, and that null, unknown and
// differently spelled names count as missing.
func TestFieldsHaveTypes(t *testing.T) {
	for _, c := range []struct {
		body, problem string
	}{
		{`{"text":1}`, "text must be a string"},
		{`{"flag":"true"}`, "flag must be true or false"},
		{`{"x":"0.5"}`, "x must be a number"},
		{`{"x":3}`, "x is 3; it must be from 0 to 2"},
		{`{"x":1e999}`, "x must be a number"},
		{`{"n":1.5}`, "n is 1.5; it must be a whole number from 1 to 5"},
		{`{"n":"1"}`, "n must be a whole number"},
		{`{"n":1e300}`, "n is 1e300; it must be a whole number from 1 to 5"},
		{`{"n":9223372036854775808}`, "n is 9223372036854775808; it must be a whole number from 1 to 5"},
		{`{"texts":[1]}`, "texts must be a string or a list of strings"},
		{`{"in":[]}`, "in must be an object"},
		{`{"in":{"flag":0}}`, "in.flag must be true or false"},
		{`{"list":{}}`, "list must be a list of objects"},
		{`{"list":[{},null]}`, "list[1] must be an object"},
		{`{"list":[{"text":1}]}`, "list[0].text must be a string"},
		{`{"absent":[1]}`, "absent is not supported"},
		{`{"text":null,"flag":null,"n":null,"texts":null,"in":null,"list":null,"absent":null,"TEXT":1,"more":[]}`, ""},
		{`{"n":5.0,"texts":"a","absent":[],"x":0.5}`, ""},
	} {
		o := newObject([]byte(c.body))
		o.text("text")
		o.boolean("flag", true)
		o.number("x", 0, 2)
		o.whole("n", 1, 5)
		o.texts("texts")
		o.inner("in").boolean("flag", true)
		for _, item := range o.list("list") {
			item.text("text")
		}
		o.refuse("absent", "is not supported")
		if c.problem == "" {
			require.NoError(t, o.err(), c.body)
		} else {
			require.EqualError(t, o.err(), c.problem, c.body)
		}
	}
}

// FuzzBodies checks that no body is accepted whose fields cannot be read.
func FuzzBodies(f *testing.F) {
	f.Add([]byte(`{"model":"a","messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"stop":["a"],"n":1}`))
	f.Add([]byte(`{"prompt":[[1,2],[3]],"options":{"seed":-1},"keep_alive":"5m"}`))
	f.Add([]byte(`{"a":1,"a":2}`))
	s := &Server{}
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := parseJSON(body); err != nil {
			return
		}
		for _, read := range []func(*object) *job{s.readChat, s.readCompletion, s.readOllamaChat, s.readOllamaGenerate} {
			o := newObject(body)
			if j := read(o); o.err() == nil && j.run == nil {
				t.Fatalf("%q has no answer", body)
			}
		}
	})
}
