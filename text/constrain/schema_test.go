package constrain

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// TestSchema checks texts against schemas as answers read them.
func TestSchema(t *testing.T) {
	for _, c := range []struct {
		schema  string
		yes, no []string
	}{
		{
			`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"]}`,
			[]string{`{"a":1}`, `{"a": -20, "b":""}`, "{\n  \"a\": 0,\n  \"b\": \"x\"\n}"},
			[]string{`{}`, `{"b":"x"}`, `{"a":1.5}`, `{"a":01}`, `{"a":-0}`, `{"a":1,"c":2}`, `{"b":"x","a":1}`, `{"a":1,}`, `{"a":1`},
		},
		{
			`{"type":"object","properties":{"a":{}},"additionalProperties":{"type":"boolean"}}`,
			[]string{`{}`, `{"a":null,"ab":true}`, `{"b":true, "":false}`},
			[]string{`{"b":1}`, `{"a":1,"a":true}`, `{"b":true,"a":1}`, `{"\u0061":true}`},
		},
		{`{"type":"string","minLength":2,"maxLength":3}`, []string{`"ab"`, `"é😀\n"`, `"\\\"\\"`}, []string{`"a"`, `"abcd"`, `"a` + "\n" + `"`, "\"a\xff\"", `"\u0061b"`}},
		{`{"pattern":"a.c"}`, []string{`"xabcx"`, `"a\"c"`, `"a\tc"`}, []string{`"ac"`, `"a\nc"`, `5`}},
		{`{"format":"email"}`, []string{`"a.b@c.de"`}, []string{`"a@b"`, `"a@b."`, `"a..b@c.de"`}},
		{`{"enum":[1.0,"x\ny",{"b":[],"a":null}]}`, []string{`1`, `"x\ny"`, `{"b":[],"a":null}`}, []string{`1.0`, `{"a":null,"b":[]}`}},
		{`{"type":["string","null"],"enum":["a",null,5,"abc"],"maxLength":2}`, []string{`"a"`, `null`}, []string{`5`, `"abc"`}},
		{`{"const":"a","enum":["b","a"]}`, []string{`"a"`}, []string{`"b"`}},
		{
			`{"type":"array","prefixItems":[{"const":1},{"const":2}],"items":{"const":3},"minItems":1,"maxItems":4}`,
			[]string{`[1]`, `[1,2]`, `[1, 2,3,3]`},
			[]string{`[]`, `[2]`, `[1,3]`, `[1,2,3,3,3]`, `[1,]`},
		},
		{`{"type":"array","items":false}`, []string{`[]`}, []string{`[1]`}},
		{`{"items":{"type":"boolean"},"maxItems":0}`, []string{`[]`}, []string{`[true]`}},
		{`{"type":"number","minimum":-1.5,"exclusiveMaximum":2}`, []string{`-1.5`, `-1.50`, `0`, `1.999`, `-0.0`}, []string{`-1.51`, `2`, `2.0`, `1e0`, `10`}},
		{`{"allOf":[{"type":["integer","string"]},{"type":"number"}],"minimum":3,"maximum":4}`, []string{`3`, `4`}, []string{`"3"`, `3.5`, `5`}},
		{`true`, []string{`[{"a":[1,"x",null]}]`, `-0.5e+10`, `""`}, []string{`{a:1}`, `1e999`}},
		{`{"$ref":"#/$defs/a~1b%25","$defs":{"a/b%":{"const":1}}}`, []string{`1`}, []string{`2`}},
	} {
		g, err := Schema([]byte(c.schema), SchemaOptions{})
		require.NoError(t, err, c.schema)
		for _, text := range c.yes {
			ok, err := g.Matches(text)
			require.NoError(t, err)
			require.True(t, ok, "%s allows %s", c.schema, text)
		}
		for _, text := range c.no {
			ok, err := g.Matches(text)
			require.NoError(t, err)
			require.False(t, ok, "%s forbids %s", c.schema, text)
		}
	}
}

// TestSchemaRefuses checks that what is not supported is refused with the path of the keyword.
func TestSchemaRefuses(t *testing.T) {
	for schema, path := range map[string]string{
		`{"properties":{"a/b":{"not":{}}}}`:                    "#/properties/a~1b/not",
		`{"items":{"type":"array","uniqueItems":true}}`:        "#/items/uniqueItems",
		`{"anyOf":[{},{"if":true}]}`:                           "#/anyOf/1/if",
		`{"$ref":"https://example.com/x"}`:                     "#/$ref",
		`{"$ref":"#/$defs/x"}`:                                 "#/$ref",
		`{"$defs":{"x":{"nullable":true}},"$ref":"#/$defs/x"}`: "#/$defs/x/nullable",
		`{"oneOf":[{"type":"integer"},{"type":"number"}]}`:     "#/oneOf/1",
		`{"oneOf":[{"properties":{}},{"type":"object"}]}`:      "#/oneOf/1",
		`{"type":"strin"}`:                                     "#/type",
		`{"type":5}`:                                           "#/type",
		`{"enum":5}`:                                           "#/enum",
		`{"properties":[]}`:                                    "#/properties",
		`{"required":"a"}`:                                     "#/required",
		`{"required":[1]}`:                                     "#/required",
		`{"items":[{}]}`:                                       "#/items",
		`{"prefixItems":{}}`:                                   "#/prefixItems",
		`{"minItems":-1}`:                                      "#/minItems",
		`{"maxLength":1.5}`:                                    "#/maxLength",
		`{"minimum":"1"}`:                                      "#/minimum",
		`{"maximum":1e999}`:                                    "#/maximum",
		`{"multipleOf":0.1}`:                                   "#/multipleOf",
		`{"multipleOf":0}`:                                     "#/multipleOf",
		`{"pattern":"(?=a)"}`:                                  "#/pattern",
		`{"pattern":5}`:                                        "#/pattern",
		`{"type":"string","format":"iri"}`:                     "#/format",
		`{"minProperties":1}`:                                  "#/minProperties",
		`{"anyOf":[]}`:                                         "#/anyOf",
		`{"allOf":5}`:                                          "#/allOf",
		`{"properties":{"a":{}},"allOf":[{"additionalProperties":false}]}`: "#/allOf/0/additionalProperties",
		`{"minimum":1,"anyOf":[{"minimum":2}]}`:                            "#/anyOf/0/minimum",
		`5`:                                                                "#",
	} {
		_, err := Schema([]byte(schema), SchemaOptions{})
		var refused *SchemaError
		require.True(t, errors.As(err, &refused), "%s: %v", schema, err)
		require.Equal(t, path, refused.Path, schema)
		require.ErrorIs(t, err, ErrLanguage)
	}
	for schema, reason := range map[string]string{
		`{"type":`:                      "unexpected EOF",
		`{} {}`:                         "text follows",
		`{"type":"string","type":"x"}`:  "there twice",
		`false`:                         "no finite text",
		`{"minLength":3,"maxLength":2}`: "no finite text",
		`{"type":"integer","minimum":5,"maximum":4}`: "no finite text",
		`{"$ref":"#"}`: "the schema at # begins with itself",
		`{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}`: "no finite text",
		"\"\xff\"": "not valid UTF-8",
	} {
		_, err := Schema([]byte(schema), SchemaOptions{})
		require.ErrorIs(t, err, ErrLanguage, schema)
		require.ErrorContains(t, err, reason, schema)
	}
}

// TestHostileSchemas checks that each is refused, or compiled within the limits.
func TestHostileSchemas(t *testing.T) {
	nested := func(open, end string, n int) string { return strings.Repeat(open, n) + "true" + strings.Repeat(end, n) }
	many := func(format string, n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(format, i))
		}
		return strings.Join(all, ",")
	}
	for name, schema := range map[string]string{
		"nested items":      nested(`{"items":`, "}", 10_000),
		"nested properties": nested(`{"properties":{"a":`, "}}", 90),
		"references":        `{"$ref":"#/$defs/0","$defs":{` + many(`"%[1]d":{"$ref":"#/$defs/%[1]d0"}`, 3) + `}}`,
		"doubling":          `{"$ref":"#/$defs/0","$defs":{` + many(`"%d":{"type":"array","prefixItems":[{"$ref":"#/$defs/1"},{"$ref":"#/$defs/1"}],"minItems":2}`, 2) + `}}`,
		"properties":        `{"properties":{` + many(`"p%d":{"type":"string"}`, 3000) + `}}`,
		"great bounds":      `{"type":"array","minItems":1000000000,"items":{"type":"array","minItems":1000000000}}`,
		"great length":      `{"type":"string","minLength":900000,"pattern":"^a*$"}`,
		"values":            `{"enum":[` + many(`"value %d"`, 5000) + `]}`,
		"ways":              `{"anyOf":[` + many(`{"type":"array","items":{"const":%d}}`, 5000) + `]}`,
		"joined":            `{"$ref":"#","minLength":1}`,
	} {
		g, err := Schema([]byte(schema), SchemaOptions{})
		if err == nil {
			_, err = NewMatcher(g, bytesVocabulary(), nil)
		}
		if err != nil {
			require.True(t, errors.Is(err, ErrComplex) || errors.Is(err, ErrLanguage), "%s: %v", name, err)
		}
	}
}

// TestNumberBounds compares ranges with arithmetic for numbers near the bounds.
func TestNumberBounds(t *testing.T) {
	random := testutil.Random(t)
	number := func() string {
		digits := fmt.Sprint(random.IntN(1300) - 650)
		if random.IntN(2) == 0 {
			digits += "." + fmt.Sprint(random.IntN(120))
		}
		return digits
	}
	keywords := []string{"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"}
	for range testutil.Effort(40, 2000) {
		kind := []string{"number", "integer"}[random.IntN(2)]
		i, bound := random.IntN(4), number()
		g, err := Schema(fmt.Appendf(nil, `{"type":%q,%q:%s}`, kind, keywords[i], bound), SchemaOptions{})
		require.NoError(t, err)
		limit, _ := new(big.Rat).SetString(bound)
		for range 60 {
			text := number()
			if random.IntN(4) == 0 {
				text = bound + []string{"", "0", ".0", "1"}[random.IntN(4)]
			}
			x, ok := new(big.Rat).SetString(text)
			if strings.Count(text, ".") > 1 || !ok || strings.HasPrefix(text, "-0") {
				continue
			}
			c := x.Cmp(limit)
			want := []bool{c >= 0, c > 0, c <= 0, c < 0}[i] && (kind == "number" || !strings.Contains(text, "."))
			got, err := g.Matches(text)
			require.NoError(t, err)
			require.Equal(t, want, got, "%s %s %s: %s", kind, keywords[i], bound, text)
		}
	}
}

// TestJoinedBounds checks that the shortest answer within several conditions is found.
func TestJoinedBounds(t *testing.T) {
	for schema, shortest := range map[string]int{
		`{"type":"integer","minimum":1000,"multipleOf":7}`:                      4,
		`{"type":"string","pattern":"^(ab|c)*$","minLength":7}`:                 9,
		`{"type":"string","pattern":"x","minLength":500,"maxLength":500}`:       502,
		`{"type":"object","properties":{"a":{"minLength":3}},"required":["a"]}`: 11,
	} {
		g, err := Schema([]byte(schema), SchemaOptions{})
		require.NoError(t, err, schema)
		require.Equal(t, shortest, g.Shortest(), schema)
	}
}

func FuzzSchema(f *testing.F) {
	for _, s := range readSchemas(f) {
		f.Add(string(s.Schema))
	}
	f.Fuzz(func(t *testing.T, text string) {
		g, err := Schema([]byte(text), SchemaOptions{})
		if err != nil {
			require.True(t, errors.Is(err, ErrComplex) || errors.Is(err, ErrLanguage), "%v", err)
			return
		}
		m, err := NewMatcher(g, bytesVocabulary(`{"`, `":`), nil)
		if err == nil {
			_, err = m.Begin().Mask(0)
		}
		if err != nil {
			require.ErrorIs(t, err, ErrComplex)
		}
	})
}
