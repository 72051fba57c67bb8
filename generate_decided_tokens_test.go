package llmrun

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/text/answer"
	"github.com/llmrun/llmrun/text/constrain"
	"github.com/llmrun/llmrun/text/sample"
)

// TestTokensAcrossTheBeginningOfArguments chooses among tokens that have the end of what is before the arguments of a strict tool and their beginning, or all of
// them: the best one is taken of those that are in the schema, and what it leaves is held. A call that is not in a form that can be held does not begin.
func TestTokensAcrossTheBeginningOfArguments(t *testing.T) {
	const header = `<tool_call>{"name": "weather", "arguments`
	tok := byteTokenizer(t, "<tool_call>", `": {"days`, `": {"ci`, `": "{`, `": {"city":"Rome"}}`, `": {"city":"Bonn"}}`, `": `, `weather(`)
	id := func(piece string) int32 {
		id, ok := tok.ID(piece)
		require.True(t, ok, piece)
		return id
	}
	size := tok.VocabSize()
	g, err := constrain.Calls([]constrain.Call{{Name: "weather", Before: argumentsOf("weather"), Space: true, Schema: []byte(`{"properties":{"city":{"enum":["Rome"]}},"required":["city"]}`)}})
	require.NoError(t, err)
	var tokens []constrain.Token
	for id := range int32(size) {
		if text, isByte, ok := tok.Written(id); ok {
			tokens = append(tokens, constrain.Token{ID: id, Bytes: text, Byte: isByte})
		}
	}
	m, err := constrain.NewMatcher(g, constrain.NewVocabulary(size, tokens, nil), nil)
	require.NoError(t, err)
	for _, test := range []struct {
		begun, best, taken string // best is the token that the model prefers; all others are equal, and taken is next
		holds              bool
	}{
		{header, `": {"days`, `": {"ci`, true},
		{header, `": {"ci`, `": {"ci`, true},
		{header, `": "{`, `": `, true},
		{header, `": {"city":"Bonn"}}`, `": {"city":"Rome"}}`, false},
		{header, `": `, `": `, true},
		{"<tool_call>", "weather(", "<tool_call>", false},
	} {
		f := answer.New("<tool_call>", nil)
		tools := &answer.Tools{}
		tools.Add("weather", nil)
		tools.Hold("weather")
		w := f.NewParser("", tools).Watch()
		w.Take(test.begun)
		d := &decided{arguments: &constraint{cursor: m.Begin(), calls: true}, watch: w, text: tok.TokenBytes, tried: noToken, tools: []string{"weather"}}
		sampler, err := sample.New(sample.Params{}, size)
		require.NoError(t, err)
		g := &generation{decided: d, sampler: sampler, session: &Session{engine: &Engine{}}}
		logits := make([]float32, size)
		logits[id(test.best)] = 9
		logits[id("<tool_call>")] = 1
		if test.taken != test.best {
			logits[id(test.taken)] = 5
		}
		got, err := g.draw(logits)
		require.NoError(t, err)
		piece, _ := tok.Piece(got)
		require.Equal(t, test.taken, piece, "%q", test.begun)
		_, err = g.passed(got, false)
		require.NoError(t, err)
		require.Equal(t, test.holds, g.held != nil, test.taken)
		w.Close()
	}
}
