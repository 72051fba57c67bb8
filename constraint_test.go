package llmrun_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/text/constrain"
)

// constraintSchemas are the schemas of package constrain.
func constraintSchemas(t *testing.T) (all []struct {
	Name   string
	Schema json.RawMessage
},
) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("text", "constrain", "testdata", "schemas.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &all))
	return all
}

// TestAnswersAreInTheSchema generates at temperature 1 within many schemas, and validates the answers by another
// program: with tokens to spare, with as many as the shortest answer takes, and with one less, which may cut the answer.
// Passes are at most as many as tokens.
func TestAnswersAreInTheSchema(t *testing.T) {
	e := demo(t)
	s := newSession(t, e)
	all := constraintSchemas(t)
	generated, cut := 0, 0
	for round := range testutil.Effort(1, 20) {
		for i, c := range all {
			if testutil.Effort(0, 1) == 0 && i%12 != 0 {
				continue
			}
			validator, err := testutil.NewJSONSchema(c.Schema)
			require.NoError(t, err)
			seed := uint64(100*round + i)
			generate := func(most int) (string, llmrun.Stats) {
				o := llmrun.GenerateOptions{MaxTokens: most, Schema: string(c.Schema), Sampling: llmrun.Sampling{Temperature: 1, Seed: &seed}}
				got := complete(t, s.ChatMessages(context.Background(), []llmrun.Message{{Role: "user", Content: "Describe a fox."}}, o))
				stats := s.Stats()
				require.LessOrEqual(t, stats.Passes, stats.GeneratedTokens)
				require.LessOrEqual(t, stats.GeneratedTokens, most)
				return got.Text, stats
			}
			_, stats := generate(1)
			shortest := stats.ShortestTokens
			for _, most := range []int{250, shortest, max(1, shortest-1)} {
				text, stats := generate(most)
				if most < shortest && stats.StopReason == llmrun.StopLength {
					require.Equal(t, most, stats.GeneratedTokens)
					cut++
					continue
				}
				require.Equal(t, llmrun.StopEOS, stats.StopReason, "%s: %s", c.Name, text)
				require.NoError(t, validator.Validate(text), "%s, seed %d, %d tokens", c.Name, seed, most)
				generated++
			}
		}
	}
	require.Positive(t, cut)
	t.Logf("%d answers, all valid, and %d cut", generated, cut)
}

// within returns the text of an answer within a constraint.
func within(t *testing.T, e *llmrun.Engine, o llmrun.GenerateOptions) (string, llmrun.Stats) {
	t.Helper()
	s := newSession(t, e)
	got := complete(t, s.Generate(context.Background(), foxPrompt, o))
	return got.Text, s.Stats()
}

// TestCertainTokensShareAPass checks that a text without a choice takes few passes, and that guesses and candidates change
// no answer.
func TestCertainTokensShareAPass(t *testing.T) {
	e := demo(t)
	const sentence = "the quick brown fox jumps over the lazy dog"
	text, stats := within(t, e, llmrun.GenerateOptions{Regexp: sentence})
	require.Equal(t, sentence, text)
	require.Equal(t, llmrun.StopEOS, stats.StopReason)
	require.Less(t, 2*stats.Passes, stats.GeneratedTokens)

	seed := uint64(7)
	o := llmrun.GenerateOptions{Grammar: `root ::= "The fox is " [a-z]{3,9} " and " [a-z]{3,9} "."`, MaxTokens: 30, Sampling: llmrun.Sampling{Temperature: 1, Seed: &seed}}
	plain := open(t, demoModel, llmrun.Options{Threads: 2, Drafts: llmrun.DraftOptions{Drafter: llmrun.DraftOff}})
	guessed := open(t, demoModel, llmrun.Options{Threads: 2, Drafts: llmrun.DraftOptions{Drafter: llmrun.DraftLookup}})
	want, _ := within(t, plain, o)
	require.Regexp(t, `^The fox is [a-z]{3,9} and [a-z]{3,9}\.$`, want)
	got, _ := within(t, guessed, o)
	require.Equal(t, want, got)
	s := newSession(t, guessed)
	for c, err := range s.Candidates(context.Background(), llmrun.Prompt{Text: foxPrompt}, llmrun.CandidateOptions{GenerateOptions: o, N: 3}) {
		require.NoError(t, err)
		require.Regexp(t, `^The fox is [a-z]{3,9} and [a-z]{3,9}\.$`, c.Text)
		if c.Index == 0 {
			require.Equal(t, want, c.Text)
		}
	}
}

// TestTheAnswerEndsInTime gives fewer and fewer tokens to a story that may be long.
func TestTheAnswerEndsInTime(t *testing.T) {
	e := demo(t)
	for _, most := range []int{40, 12, 8} {
		text, stats := within(t, e, llmrun.GenerateOptions{Schema: `{"properties":{"a":{"type":"string"}},"required":["a"]}`, MaxTokens: most})
		require.True(t, json.Valid([]byte(text)), "%d: %s", most, text)
		require.LessOrEqual(t, stats.GeneratedTokens, most)
		require.Equal(t, llmrun.StopEOS, stats.StopReason)
	}
	text, stats := within(t, e, llmrun.GenerateOptions{Regexp: `[A-Za-z ,]+`, MaxTokens: 6})
	require.Equal(t, llmrun.StopEOS, stats.StopReason, "more might follow %s, but the answer is whole", text)
	require.Equal(t, 6, stats.GeneratedTokens)
	require.Equal(t, 1, stats.ShortestTokens)
	_, stats = within(t, e, llmrun.GenerateOptions{Regexp: "the quick brown fox jumps over the lazy dog", MaxTokens: 3})
	require.Equal(t, llmrun.StopLength, stats.StopReason, "no answer is that short")
}

// TestThoughtsLeaveRoomForTheAnswer asks a model that never ends its thoughts by itself: they end where the answer needs the rest of the tokens.
func TestThoughtsLeaveRoomForTheAnswer(t *testing.T) {
	e := open(t, ".", llmrun.Options{Threads: 2, FS: overlay(t, demoModel, map[string]string{
		"chat_template.jinja": "{% for m in messages %}{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<think>\n{% endif %}",
	})})
	schema := `{"type":"object","properties":{"name":{"type":"string"},"n":{"type":"integer"}},"required":["name","n"]}`
	for _, most := range []int{30, 60} {
		seed := uint64(most)
		s := newSession(t, e)
		var a llmrun.Answer
		for piece, err := range s.Chat(context.Background(), "Describe a fox.", llmrun.GenerateOptions{
			Schema: schema, MaxTokens: most, Sampling: llmrun.Sampling{Temperature: 1, Seed: &seed},
		}) {
			require.NoError(t, err)
			a.Add(&piece)
		}
		require.NotEmpty(t, a.Thinking())
		require.True(t, json.Valid([]byte(a.Text())), "%d tokens: %q behind %q", most, a.Text(), a.Thinking())
		require.LessOrEqual(t, s.Stats().GeneratedTokens, most)
	}
}

// TestConstraintsAreRefused checks the errors of what cannot be used.
func TestConstraintsAreRefused(t *testing.T) {
	e := demo(t)
	for _, c := range []struct {
		options llmrun.GenerateOptions
		is      error
		text    string
	}{
		{llmrun.GenerateOptions{Schema: `{"properties":{"a":{"not":{}}}}`}, llmrun.ErrConstraint, "#/properties/a/not"},
		{llmrun.GenerateOptions{Regexp: `a(?=b)`}, llmrun.ErrConstraint, "at byte 1"},
		{llmrun.GenerateOptions{Grammar: "root ::= x"}, llmrun.ErrConstraint, `rule "x" is not defined`},
		{llmrun.GenerateOptions{Grammar: "root ::= x", Regexp: "x"}, llmrun.ErrOptions, "exclude each other"},
		{llmrun.GenerateOptions{Regexp: "x", IgnoreEOS: true}, llmrun.ErrOptions, "IgnoreEOS"},
	} {
		got := collect(newSession(t, e).Generate(context.Background(), foxPrompt, c.options))
		require.ErrorIs(t, got.err, c.is)
		require.ErrorContains(t, got.err, c.text)
		require.ErrorIs(t, c.options.CheckConstraint(), c.is)
	}
}

// TestCompilingAConstraintIsCounted gives an engine with the smallest budget a grammar of many rules. The budget refuses it
// before it is compiled, and has everything back; without an engine it is not compiled either.
func TestCompilingAConstraintIsCounted(t *testing.T) {
	t.Parallel()
	const rules = 20_000
	var text strings.Builder
	text.WriteString("root ::= r0\n")
	for i := range rules {
		fmt.Fprintf(&text, "r%d ::= \"x\" r%d | \"y\"\n", i, (i+1)%rules)
	}
	o := llmrun.GenerateOptions{Grammar: text.String()}
	require.NoError(t, o.CheckConstraint())
	pack, options := filepath.Join("cmd", "llmrun", "bundled", "model.pack"), llmrun.Options{Threads: 1, Context: 64}
	options.Memory.RAM = minimum(t, pack, options)
	e := open(t, pack, options)
	s := newSession(t, e)
	held := e.MemoryUsed()
	require.ErrorIs(t, collect(s.Generate(t.Context(), "Hi", o)).err, llmrun.ErrBudget)
	require.Equal(t, held, e.MemoryUsed())
}

// TestSchemaOf compares the schemas of types with what encoding/json decodes.
func TestSchemaOf(t *testing.T) {
	type point struct{ X, Y int8 }
	type node struct {
		Name     string  `json:"name"`
		Children []*node `json:"children,omitempty"`
	}
	type everything struct {
		point
		At      time.Time      `json:"at"`
		Weight  *float64       `json:"weight"`
		Tags    [2]string      `json:"tags"`
		Counts  map[string]int `json:"counts"`
		Any     any            `json:"any"`
		Tree    node           `json:"tree"`
		Skipped chan int       `json:"-"`
	}
	schema, err := llmrun.SchemaOf[everything]()
	require.NoError(t, err)
	require.Equal(t, `{"$ref":"#/$defs/0","$defs":{"0":{"type":"object","properties":{"X":{"type":"integer","minimum":-128,"maximum":127},"Y":{"type":"integer","minimum":-128,"maximum":127},`+
		`"at":{"type":"string","format":"date-time"},"weight":{"anyOf":[{"type":"number"},{"type":"null"}]},"tags":{"type":"array","items":{"type":"string"},"minItems":2,"maxItems":2},`+
		`"counts":{"type":"object","additionalProperties":{"type":"integer"}},"any":{},"tree":{"$ref":"#/$defs/1"}},"required":["X","Y","at","weight","tags","counts","any","tree"],"additionalProperties":false},`+
		`"1":{"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"anyOf":[{"$ref":"#/$defs/1"},{"type":"null"}]}}},"required":["name"],"additionalProperties":false}}}`, schema)
	require.NoError(t, (&llmrun.GenerateOptions{Schema: schema}).CheckConstraint())
	_, err = llmrun.SchemaOf[struct{ C chan int }]()
	require.ErrorIs(t, err, llmrun.ErrOptions)
	_, err = llmrun.SchemaOf[map[int]string]()
	require.ErrorIs(t, err, llmrun.ErrOptions)
}

// The types of TestSchemaOfDecodes contain themselves.
type (
	tree   []tree
	byName map[string]byName
)

// TestSchemaOfDecodes checks that texts of the schema are decoded into every field, as encoding/json names them.
func TestSchemaOfDecodes(t *testing.T) {
	type Inner struct {
		ID   int    `json:"id"`
		Note string `json:"note"`
	}
	type shadowed struct {
		Inner
		Key string `json:"id"`
		//lint:ignore SA5008 encoding/json names this field "-"
		Dash int `json:"-,"`
	}
	checkSchemaOf[shadowed](t, []string{`{"note":"n","id":"x","-":1}`}, []string{`{"note":"n","id":1,"-":1}`, `{"note":"n","id":"x"}`})
	checkSchemaOf[tree](t, []string{`[]`, `[[],[[]]]`}, []string{`[1]`})
	checkSchemaOf[byName](t, []string{`{}`, `{"a":{"b":{}}}`}, []string{`{"a":1}`})
	checkSchemaOf[float32](t, []string{`0.5`, `-999999999999999.5`}, []string{`1e99`})
	checkSchemaOf[json.Number](t, []string{`-1.5`}, []string{`"x"`})
	checkSchemaOf[float64](t, []string{`0.5`, `1e99`}, nil)
}

// checkSchemaOf checks which texts the schema of a type has, and that these are decoded and written again.
func checkSchemaOf[T any](t *testing.T, yes, no []string) {
	t.Helper()
	schema, err := llmrun.SchemaOf[T]()
	require.NoError(t, err)
	g, err := constrain.Schema([]byte(schema), constrain.SchemaOptions{})
	require.NoError(t, err, schema)
	for _, text := range yes {
		ok, err := g.Matches(text)
		require.NoError(t, err)
		require.True(t, ok, "%s allows %s", schema, text)
		var v T
		require.NoError(t, json.Unmarshal([]byte(text), &v))
		again, err := json.Marshal(v)
		require.NoError(t, err)
		if !strings.HasPrefix(text, "[") { // nil lists are written as null
			var one, other any
			require.NoError(t, json.Unmarshal([]byte(text), &one))
			require.NoError(t, json.Unmarshal(again, &other))
			require.Equal(t, fmt.Sprintf("%.4v", one), fmt.Sprintf("%.4v", other), "every field is decoded")
		}
	}
	for _, text := range no {
		ok, err := g.Matches(text)
		require.NoError(t, err)
		require.False(t, ok, "%s forbids %s", schema, text)
	}
}

// ExampleInto reads an answer into a struct.
func ExampleInto() {
	engine, err := llmrun.Open(demoModel, llmrun.Options{})
	if err != nil {
		panic(err)
	}
	defer engine.Close()
	session, err := engine.NewSession()
	if err != nil {
		panic(err)
	}
	type animal struct {
		Kind string `json:"kind"`
		Legs uint8  `json:"legs"`
	}
	fox, err := llmrun.Into[animal](context.Background(), session, "Describe a fox.", llmrun.GenerateOptions{MaxTokens: 60})
	fmt.Println(fox.Kind != "", err)
	// Output: true <nil>
}

// TestFieldsOfADocument extracts fields of a document in several parts. The bundled model repeats itself in some of them, which ends
// there, and what it writes is valid nevertheless; the next run has it saved.
func TestFieldsOfADocument(t *testing.T) {
	const schema = `{"type":"object","properties":{"title":{"type":"string"},"names":{"type":"array","items":{"type":"string"},"maxItems":3}},"required":["title","names"]}`
	validator, err := testutil.NewJSONSchema([]byte(schema))
	require.NoError(t, err)
	e := open(t, demoModel, llmrun.Options{Threads: 2, Cache: llmrun.CacheOptions{Dir: t.TempDir()}})
	doc := func() *llmrun.Document {
		return llmrun.TextDocument("foxes", strings.Repeat("Ruby the fox lived near the lake with her friend Tom.\n\n", 12))
	}
	o := llmrun.SummarizeOptions{Schema: schema, PartTokens: 96}
	first, err := e.Summarize(context.Background(), doc(), o)
	require.NoError(t, err)
	require.Greater(t, len(first.Parts), 1)
	require.NoError(t, validator.Validate(first.Text))
	for _, part := range first.Parts {
		require.NoError(t, validator.Validate(part.Summary))
	}
	again, err := e.Summarize(context.Background(), doc(), o)
	require.NoError(t, err)
	require.Equal(t, first.Text, again.Text)
	require.Zero(t, again.Computed)
	o.Schema = `{"type":"string","minLength":400}`
	_, err = e.Summarize(context.Background(), doc(), o)
	require.ErrorIs(t, err, llmrun.ErrOptions)
	require.ErrorContains(t, err, "the shortest takes up to")
}

// TestChannelsLeaveRoomForTheAnswer asks a model with channels that never ends its analysis by itself, or would end the answer in it, or does not come to
// the end of a header, for an answer within a schema: it begins where it needs the rest of the tokens, and is valid.
func TestChannelsLeaveRoomForTheAnswer(t *testing.T) {
	e := harmonyModel(t)
	const schema = `{"type":"object","properties":{"name":{"type":"string"},"n":{"type":"integer"}},"required":["name","n"]}`
	const analysis = "<|channel|>analysis<|message|>"
	for _, begun := range []string{"", "<|channel|>ana", analysis, analysis + "hm<|end|>", analysis + "hm<|end|><|start|>assistant<|channel|>final", analysis + "hm<|end|><|start|>assistant<|channel|>final<|message|>"} {
		for most := 36; most < testutil.Effort(37, 60); most++ {
			for _, ends := range []bool{false, true} {
				seed := uint64(most)
				o := llmrun.GenerateOptions{Schema: schema, MaxTokens: most, Sampling: llmrun.Sampling{Temperature: 1, Seed: &seed}}
				if o.Sampling.LogitBias = map[int32]float32{}; ends {
					o.Sampling.LogitBias[llmrun.Ends(e)[0]] = 100
				}
				s := newSession(t, e)
				var a llmrun.Answer
				for piece, err := range llmrun.ChatBegun(t.Context(), s, []llmrun.Message{{Role: "user", Content: "Describe a fox."}}, begun, o) {
					require.NoError(t, err)
					a.Add(&piece)
				}
				require.True(t, json.Valid([]byte(a.Text())), "%d tokens behind %q: %q behind %q", most, begun, a.Text(), a.Thinking())
				require.LessOrEqual(t, s.Stats().GeneratedTokens, most)
				require.Equal(t, llmrun.StopEOS, s.Stats().StopReason)
			}
		}
	}
}

// TestThoughtsDoNotEndTheAnswer asks a model for an answer within a schema that would rather end it while it thinks: its thoughts end instead.
func TestThoughtsDoNotEndTheAnswer(t *testing.T) {
	e := open(t, demoModel, llmrun.Options{Threads: 2})
	llmrun.UseTemplate(t, e, "{% for m in messages %}{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<think>\n{% endif %}")
	seed := uint64(1)
	s := newSession(t, e)
	var a llmrun.Answer
	o := llmrun.GenerateOptions{Schema: `{"properties":{"ok":{"type":"boolean"}},"required":["ok"]}`, MaxTokens: 60, Sampling: llmrun.Sampling{Temperature: 1, Seed: &seed, LogitBias: map[int32]float32{llmrun.Ends(e)[0]: 100}}}
	for piece, err := range s.Chat(t.Context(), "Describe a fox.", o) {
		require.NoError(t, err)
		a.Add(&piece)
	}
	require.True(t, json.Valid([]byte(a.Text())), a.Text())
	require.Less(t, s.Stats().GeneratedTokens, 60)
}
