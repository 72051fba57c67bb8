package constrain

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

func TestMerge(t *testing.T) {
	for _, c := range []struct {
		schema string
		parts  []string
		want   string
	}{
		{
			`{"properties":{"title":{"type":"string"},"people":{"type":"array","items":{"type":"string"},"maxItems":3},"date":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["title","people","date"]}`,
			[]string{`{"title":"", "people":["Ann","Bob"],"date":null}`, `{"title":"A","people":["Bob"],"date":"May"}`, `{"title":"B","people":[],"date":null}`, `{"title":"B","people":["Cy","Di"],"date":null}`},
			`{"title":"B","people":["Ann","Bob","Cy"],"date":"May"}`,
		},
		{`{"type":"array","items":{"$ref":"#/$defs/a"},"$defs":{"a":{"properties":{"n":{"type":"number"}}}}}`, []string{`[{"n":1.0}]`, `[{"n":2e50},{"n":1}]`}, `[{"n":1.0},{"n":2e50}]`},
		{`{"type":"array","items":{"enum":["a"]},"minItems":2}`, []string{`["a","a"]`, `["a","a"]`}, `["a","a"]`},
		{`{"prefixItems":[{"type":"string"}],"items":{"type":"integer"}}`, []string{`["a",1]`, `["b",2]`, `["b",2]`}, `["b",2]`},
		{`{"properties":{"a":{}},"required":["z"],"additionalProperties":{"type":"integer"}}`, []string{`{"z":1,"m":2}`, `{"a":[1],"z":1,"b":3}`, `{"a":[2],"z":1}`}, `{"a":[1,2],"z":1,"m":2,"b":3}`},
		{`{"properties":{"in":{"$ref":"#"},"x":{"type":"boolean"}}}`, []string{`{"in":{"x":true}}`, `{"in":{"in":{}},"x":false}`}, `{"in":{"in":{},"x":true},"x":false}`},
		{`{"anyOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"b":{"type":"string"}},"required":["b"]}]}`, []string{`{"a":"x"}`, `{"b":"y"}`}, `{"a":"x"}`},
		{`{"type":["object","null"],"properties":{"a":{"type":"string"}}}`, []string{`null`, `{"a":"x"}`, `{}`}, `{"a":"x"}`},
		{`{"additionalProperties":{"type":"integer"}}`, []string{`{"a":1,"b":2,"a":3}`, `{"b":2}`}, `{"b":2,"a":3}`},
		{`{"type":"string"}`, []string{`""`, `""`}, `""`},
	} {
		got, err := Merge([]byte(c.schema), c.parts)
		require.NoError(t, err, c.schema)
		require.Equal(t, c.want, got, c.schema)
	}
	_, err := Merge([]byte(`{"not":{}}`), []string{`1`})
	require.ErrorIs(t, err, ErrLanguage)
	_, err = Merge([]byte(`{}`), []string{`1`, `{`})
	require.ErrorContains(t, err, "answer 2 of 2")
	_, err = Merge([]byte(`{}`), nil)
	require.ErrorContains(t, err, "no answers")
}

// TestMergesAreCounted refuses each reservation of a merge in turn, until none is refused.
func TestMergesAreCounted(t *testing.T) {
	schema := []byte(`{"properties":{"a":{"type":"array","items":{"type":"integer"}},"b":{"type":"string"}},"required":["a","b"]}`)
	var answers []string
	for i := range 4 {
		answers = append(answers, fmt.Sprintf(`{"a":[%s],"b":"%s"}`, repeated(strconv.Itoa(1+i%2)+"%04d", 4000), strings.Repeat("b", 4000)))
	}
	want, err := Merge(schema, answers)
	require.NoError(t, err)
	full, refused := errors.New("full"), 0
	for ; ; refused++ {
		reservations := 0
		k := Compiler{Reserve: func(int64) error {
			if reservations++; reservations > refused {
				return full
			}
			return nil
		}}
		got, err := k.Merge(schema, answers)
		if err == nil {
			require.Equal(t, want, got)
			break
		}
		require.ErrorIs(t, err, full)
	}
	require.Greater(t, refused, 4*4000*valueBytes/compileStep, "all values are counted")
}

// TestMergedAnswersAreValid merges answers at random within every schema of testdata.
func TestMergedAnswersAreValid(t *testing.T) {
	a := answers{v: jsonVocabulary(), random: testutil.Random(t), ends: 0.5}
	for i, s := range readSchemas(t) {
		if testutil.Effort(0, 1) == 0 && i%5 != 0 {
			continue
		}
		g, err := Schema(s.Schema, SchemaOptions{})
		require.NoError(t, err, s.Name)
		m, err := NewMatcher(g, a.v, nil)
		require.NoError(t, err, s.Name)
		valid, err := testutil.NewJSONSchema(s.Schema)
		require.NoError(t, err)
		for range testutil.Effort(2, 50) {
			var parts []string
			for range 1 + a.random.IntN(5) {
				text, _ := a.generate(t, m, m.Begin().Needs()+40)
				parts = append(parts, text)
			}
			merged, err := Merge(s.Schema, parts)
			require.NoError(t, err, "%s: %q", s.Name, parts)
			require.NoError(t, valid.Validate(merged), "%s: %q", s.Name, parts)
		}
	}
}
