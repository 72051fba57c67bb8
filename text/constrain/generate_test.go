package constrain

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// namedSchema is a schema of testdata.
type namedSchema struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
}

func readSchemas(t testing.TB) (all []namedSchema) {
	t.Helper()
	text, err := os.ReadFile("testdata/schemas.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &all))
	require.GreaterOrEqual(t, len(all), 50)
	return all
}

// answers draws tokens of masks.
type answers struct {
	v      *Vocabulary
	random *rand.Rand
	ends   float64 // probability of the end where it is allowed
}

// generate returns an answer of at most most tokens; 0 is no limit.
func (a *answers) generate(t *testing.T, m *Matcher, most int) (text string, tokens int) {
	t.Helper()
	c := m.Begin()
	defer c.Close()
	for {
		left := 0
		if most > 0 {
			left = most - tokens
		}
		if most > 0 && left == 0 {
			require.True(t, c.Accepts(), "the answer %q is cut at %d tokens", text, tokens)
			return text, tokens
		}
		mask, err := c.Mask(left)
		require.NoError(t, err, "behind %q", text)
		if mask.Done {
			return text, tokens
		}
		allowed := ids(mask.Bits)
		require.NotEmpty(t, allowed, "behind %q", text)
		end := allowed[len(allowed)-1] == a.v.ends[0]
		require.Equal(t, c.Accepts(), end)
		if end && (len(allowed) == 1 || a.random.Float64() < a.ends) {
			return text, tokens
		}
		if end {
			allowed = allowed[:len(allowed)-1]
		}
		id := allowed[a.random.IntN(len(allowed))]
		require.NoError(t, c.Accept(id))
		text += string(a.v.spelled[id])
		tokens++
	}
}

// jsonVocabulary has tokens that cross the ends of strings and of characters.
func jsonVocabulary() *Vocabulary {
	return bytesVocabulary(`{"`, `":`, `": "`, `",`, `", "`, `"}`, `}}`, "\n", "\n  ", "    ", "name", "nam", "value", "true", "false", "null", "11", "2024", "-0", "0.", `\"`, `\n`,
		"é", "\xc3", "\xf0\x9f", "😀", "abc", "ab", " the", "circle", "box", `]}`, `[{"`, "field_", "1", "a")
}

// TestAnswersAreValid draws answers within every schema of testdata, with few tokens and with many, and validates them by
// another program.
func TestAnswersAreValid(t *testing.T) {
	v := jsonVocabulary()
	random := testutil.Random(t)
	for _, s := range readSchemas(t) {
		g, err := Schema(s.Schema, SchemaOptions{})
		require.NoError(t, err, s.Name)
		m, err := NewMatcher(g, v, nil)
		require.NoError(t, err, s.Name)
		valid, err := testutil.NewJSONSchema(s.Schema)
		require.NoError(t, err)
		least := m.Begin().Needs()
		for i := range testutil.Effort(4, 200) {
			a := answers{v: v, random: random, ends: 0.5}
			text, n := a.generate(t, m, least+i*7)
			require.LessOrEqual(t, n, least+i*7)
			require.NoError(t, valid.Validate(text), "%s: %s", s.Name, text)
			ok, err := g.Matches(text)
			require.NoError(t, err)
			require.True(t, ok)
		}
	}
}

// TestMasksAreExact compares masks with what the language says about each token, for expressions and vocabularies at
// random: a token is allowed exactly if a text of the language begins so, except where the next bytes are certain.
func TestMasksAreExact(t *testing.T) {
	random := testutil.Random(t)
	for range testutil.Effort(60, 5000) {
		expression := randomExpression(random, 3)
		g, err := Regexp(expression)
		require.NoError(t, err, expression)
		var texts []string
		for range random.IntN(12) {
			text := ""
			for range 2 + random.IntN([]int{4, 4, 20}[random.IntN(3)]) {
				text += string(rune('a' + random.IntN(3)))
			}
			texts = append(texts, text)
		}
		m, err := NewMatcher(g, bytesVocabulary(texts...), nil)
		require.NoError(t, err)
		checkMasks(t, m, expression, random)
	}
}

// checkMasks follows one answer and compares each mask.
func checkMasks(t *testing.T, m *Matcher, expression string, random *rand.Rand) {
	t.Helper()
	c := m.Begin()
	defer c.Close()
	text := ""
	for range 12 {
		mask, err := c.Mask(0)
		require.NoError(t, err)
		within := func(most int32) []int32 {
			want := []int32{}
			for id, spelled := range m.v.spelled {
				e := c.state
				for _, b := range spelled {
					e = m.m.step(e, m.m.class[b])
				}
				if spelled != nil && e != nothing && m.costs.get(e) <= most {
					want = append(want, int32(id))
				}
			}
			if c.Accepts() {
				want = append(want, m.v.ends[0])
			}
			return want
		}
		want := within(never - 1)
		got := ids(mask.Bits)
		if certain := m.certain(c.state); certain >= 0 {
			require.Equal(t, []int32{certain}, got)
			require.Contains(t, want, certain)
		} else {
			require.Equal(t, want, got, "%s behind %q", expression, text)
		}
		if require.Equal(t, len(want) == 1 && c.Accepts(), mask.Done); mask.Done {
			return
		}
		id := got[random.IntN(len(got))]
		if id == m.v.ends[0] {
			return
		}
		before := c.Needs()
		if left := before + random.IntN(3); left > 0 && m.certain(c.state) < 0 {
			limited, err := c.Mask(left)
			require.NoError(t, err)
			require.Equal(t, within(int32(left-1)), ids(limited.Bits), "%s behind %q with %d tokens left", expression, text, left)
		}
		require.NoError(t, c.Accept(id))
		text += string(m.v.spelled[id])
		limited, err := c.Mask(before)
		require.NoError(t, err)
		require.True(t, c.Needs() > before || c.Accepts() || len(ids(limited.Bits)) > 0)
	}
}

// randomExpression returns a regular expression over a, b and c.
func randomExpression(random *rand.Rand, depth int) string {
	letter := string(rune('a' + random.IntN(3)))
	if depth == 0 {
		return letter
	}
	inner := func() string { return randomExpression(random, depth-1) }
	switch random.IntN(8) {
	case 0, 1, 2:
		return inner() + inner()
	case 3:
		return "(" + inner() + "|" + inner() + ")"
	case 4:
		return "(" + inner() + ")*"
	case 5:
		return "(" + inner() + ")?"
	case 6:
		low := random.IntN([]int{3, 3, 25}[random.IntN(3)])
		return fmt.Sprintf("(%s){%d,%d}", inner(), low, low+2+random.IntN(30))
	}
	return "[^" + letter + "]"
}
