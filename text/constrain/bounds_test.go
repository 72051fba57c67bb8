package constrain

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// repeated returns a list of n texts of a format, which has one number.
func repeated(format string, n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(all, ",")
}

// TestCompilationIsBounded compiles what would take minutes or hours if only its states were bounded: the steps of each are too.
func TestCompilationIsBounded(t *testing.T) {
	t.Parallel()
	tree := `{"type":"object","required":["x","y"],"properties":{"x":{"$ref":"#/$defs/%[1]s"},"y":{"$ref":"#/$defs/%[1]s"}}}`
	for name, c := range map[string]struct {
		schema string
		is     error
	}{
		"recursive ways": {
			`{"oneOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}],"$defs":{"a":` + fmt.Sprintf(tree, "a") + `,"b":` + fmt.Sprintf(tree, "b") + `}}`,
			ErrLanguage, // nothing tells them apart
		},
		"ways with many values": {`{"oneOf":[{"enum":[` + repeated("%d", 40_000) + `]},{"enum":[` + repeated(`"%d"`, 40_000) + `]}]}`, ErrComplex},
		"values and a pattern":  {`{"enum":[` + repeated(`"%d"`, 60_000) + `],"pattern":"^[\\p{L}\\d]*$"}`, ErrComplex},
		"joined names":          {`{"allOf":[{"required":[` + repeated(`"a%d"`, 40_000) + `]},{"required":[` + repeated(`"b%d"`, 40_000) + `]}]}`, ErrComplex},
		"joined properties":     {`{"allOf":[{"properties":{` + repeated(`"a%d":{}`, 30_000) + `}},{"properties":{` + repeated(`"b%d":{}`, 30_000) + `}}]}`, ErrComplex},
		"a long name":           {`{"properties":{"` + strings.Repeat("a", 500_000) + `":true},"additionalProperties":true}`, ErrComplex},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Schema([]byte(c.schema), SchemaOptions{})
			require.ErrorIs(t, err, c.is)
		})
	}
	t.Run("rules in any order", func(t *testing.T) {
		const n = 25_000
		order := rand.New(rand.NewPCG(1, 2)).Perm(n)
		next := make([]string, n)
		for i, at := range order[:n-1] {
			next[at] = fmt.Sprintf("r%d", order[i+1])
		}
		next[order[n-1]] = `""`
		var b strings.Builder
		fmt.Fprintf(&b, "root ::= r%d\n", order[0])
		for i := range n {
			fmt.Fprintf(&b, "r%d ::= %s\n", i, next[i])
		}
		_, err := GBNF(b.String())
		require.ErrorIs(t, err, ErrComplex)
	})
}

// TestCompilationsReserveWhatTheyHold compiles languages that take much memory: what is live behind a compilation is at most what it
// has reserved, and the error of a reservation ends it. It does not run beside other tests, whose heap would count.
func TestCompilationsReserveWhatTheyHold(t *testing.T) {
	var k Compiler
	for name, compile := range map[string]func() (any, error){
		"numbers": func() (any, error) { return parseJSON([]byte("["+repeated("%d", 100_000)+"]"), k.meter()) },
		"members": func() (any, error) { return parseJSON([]byte("{"+repeated(`"a%d":[]`, 50_000)+"}"), k.meter()) },
		"nesting": func() (any, error) { return parseJSON([]byte("["+repeated(`[[{"%d":[0]}]]`, 20_000)+"]"), k.meter()) },
		"properties": func() (any, error) {
			return k.Schema([]byte(`{"required":[`+repeated(`"a%d"`, 500)+`],"properties":{`+repeated(`"a%d":{"enum":["x",1,true,null]}`, 500)+`}}`), SchemaOptions{})
		},
		"words": func() (any, error) {
			return k.GBNF("root ::= " + strings.ReplaceAll(repeated(`"word%d"`, 4000), ",", "|"))
		},
		"repetitions": func() (any, error) { return k.Regexp(repeated("(%d|b[cd]e?)+f", 3000)) },
		"answers":     func() (any, error) { return parseAnswer("["+repeated("%d", 100_000)+"]", k.meter()) },
		"a comparison": func() (any, error) {
			g, err := Schema([]byte(`{"type":"array","items":{"type":"string","maxLength":300000}}`), SchemaOptions{})
			require.NoError(t, err)
			m, err := g.m.counted(k.meter())
			if err == nil {
				m.accepts(`["` + strings.Repeat("a", 10_000))
				err = m.err
			}
			return m, err
		},
		"a call": func() (any, error) {
			return k.Calls([]Call{{Name: "f", Schema: []byte(`{"properties":{"a":{"enum":[` + repeated(`"v%d"`, 4000) + `]}}}`)}})
		},
	} {
		full := errors.New("full")
		k.Reserve = func(int64) error { return full }
		_, err := compile()
		require.ErrorIs(t, err, full, name)
		var before, after runtime.MemStats
		reserved := int64(0)
		k.Reserve = func(bytes int64) error {
			reserved += bytes
			return nil
		}
		runtime.GC()
		runtime.ReadMemStats(&before)
		compiled, err := compile()
		require.NoError(t, err, name)
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(compiled)
		t.Logf("%s: %d bytes live, %d reserved", name, int64(after.HeapAlloc)-int64(before.HeapAlloc), reserved)
		require.LessOrEqual(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), reserved+freeBytes, name)
	}
	_, err := k.Schema([]byte(`{"examples":[`+repeated("%d", maxValues)+`]}`), SchemaOptions{})
	require.ErrorIs(t, err, ErrComplex)
}

// TestAllOfKeepsEveryPart checks parts that are no objects, wherever they stand.
func TestAllOfKeepsEveryPart(t *testing.T) {
	for _, schema := range []string{
		`{"allOf":[false,{"type":"boolean"}]}`,
		`{"allOf":[{"type":"boolean"},false,{"type":"boolean"}]}`,
		`{"type":"boolean","allOf":[false,true]}`,
	} {
		_, err := Schema([]byte(schema), SchemaOptions{})
		require.ErrorContains(t, err, "no finite text", schema)
	}
	for schema, path := range map[string]string{
		`{"allOf":[5,{"type":"boolean"}]}`:                       "#/allOf/0",
		`{"allOf":[{"type":"boolean"},"x",{"type":"boolean"}]}`:  "#/allOf/1",
		`{"type":"boolean","$ref":"#/$defs/a","$defs":{"a":[]}}`: "#/$ref",
	} {
		_, err := Schema([]byte(schema), SchemaOptions{})
		var refused *SchemaError
		require.ErrorAs(t, err, &refused, schema)
		require.Equal(t, path, refused.Path, schema)
	}
}

// TestFormatsAreRefused checks that a format that is not known is refused beside every type, not only beside strings.
func TestFormatsAreRefused(t *testing.T) {
	for _, schema := range []string{
		`{"type":"integer","format":"uint8"}`,
		`{"type":["number","null"],"format":"decimal"}`,
		`{"type":"object","properties":{},"format":"x"}`,
		`{"type":"array","format":5}`,
		`{"enum":[1,2],"format":"x"}`,
	} {
		_, err := Schema([]byte(schema), SchemaOptions{})
		var refused *SchemaError
		require.ErrorAs(t, err, &refused, schema)
		require.Equal(t, "#/format", refused.Path, schema)
	}
	_, err := Schema([]byte(`{"type":["integer","null"],"format":"date"}`), SchemaOptions{})
	require.NoError(t, err, "a format of strings says nothing about numbers")
}

// TestLongTextsAreCompared compares texts with a grammar in which each character leads to another state: more of them than a machine may have, of
// which most are forgotten.
func TestLongTextsAreCompared(t *testing.T) {
	g, err := Schema([]byte(`{"type":"array","items":{"type":"string","maxLength":300000}}`), SchemaOptions{})
	require.NoError(t, err)
	for end, want := range map[string]bool{`","b"]`: true, `","b"`: false} {
		m := g.m.clone()
		m.most = m.base + keptStates + 100
		require.Equal(t, want, m.accepts(`["`+strings.Repeat("a", 2*keptStates)+end))
		require.NoError(t, m.err)
	}
}
