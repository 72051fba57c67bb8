package llmrun_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

// harmonyModel returns the demo model with the marks of harmony in place of its last tokens, and a template that writes them.
func harmonyModel(t *testing.T) *llmrun.Engine {
	t.Helper()
	var tokenizer struct {
		Added []map[string]any `json:"added_tokens"`
		Model map[string]any   `json:"model"`
		Rest  map[string]any   `json:"-"`
	}
	files := overlay(t, demoModel, nil)
	source := files["tokenizer.json"].Data
	require.NoError(t, json.Unmarshal(source, &tokenizer))
	require.NoError(t, json.Unmarshal(source, &tokenizer.Rest))
	marks := []string{"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>"}
	vocab := tokenizer.Model["vocab"].(map[string]any)
	first := len(vocab) - len(marks)
	for text, id := range vocab {
		if int(id.(float64)) >= first {
			delete(vocab, text)
		}
	}
	tokenizer.Model["merges"] = slices.DeleteFunc(tokenizer.Model["merges"].([]any), func(merge any) bool {
		pair := merge.([]any)
		_, known := vocab[pair[0].(string)+pair[1].(string)]
		return !known
	})
	for i, mark := range marks {
		tokenizer.Added = append(tokenizer.Added, map[string]any{"id": first + i, "content": mark, "special": true})
	}
	tokenizer.Rest["added_tokens"], tokenizer.Rest["model"] = tokenizer.Added, tokenizer.Model
	text, err := json.Marshal(tokenizer.Rest)
	require.NoError(t, err)
	return open(t, ".", llmrun.Options{Threads: 2, FS: overlay(t, demoModel, map[string]string{
		"tokenizer.json": string(text), "chat_template.jinja": llmrun.HarmonyTemplate,
	})})
}

// TestRequiredCallsOfChannelsAreHeld requires a call of one of several strict tools of a model with channels, which writes the name of the tool in
// the header of a message, between marks: with thoughts and without, each answer is a call whose arguments are in the schema of its tool.
func TestRequiredCallsOfChannelsAreHeld(t *testing.T) {
	e := harmonyModel(t)
	tools := []llmrun.Tool{
		{Name: "weather", Parameters: []byte(`{"type":"object","properties":{"city":{"enum":["Rome","Oslo"]},"days":{"type":"integer","minimum":1,"maximum":7}},"required":["city","days"]}`)},
		{Name: "weather_by_day", Parameters: []byte(`{"type":"object","properties":{"day":{"type":"boolean"}},"required":["day"]}`)},
		{Name: "note", Parameters: []byte(`{"type":"object","properties":{"text":{"type":"string","maxLength":20}},"required":["text"]}`)},
		{Name: "stop"},
	}
	for i := range tools {
		tools[i].Strict = true
	}
	s := newSession(t, e)
	for seed := range uint64(testutil.Effort(1, 20)) {
		for i := range tools {
			for _, thinking := range []string{"", llmrun.ThinkOff} {
				requireCallOf(t, e, s, tools, i, llmrun.GenerateOptions{MaxTokens: 44, Sampling: llmrun.Sampling{Temperature: 1, Seed: &seed}}, thinking)
			}
		}
	}
}

// requireCallOf requires a call, makes the tokens of the name of a tool the likeliest ones, and checks that the answer is a call of it.
func requireCallOf(t *testing.T, e *llmrun.Engine, s *llmrun.Session, tools []llmrun.Tool, i int, o llmrun.GenerateOptions, thinking string) {
	t.Helper()
	want := &tools[i]
	o.Sampling.LogitBias = map[int32]float32{}
	for text, bias := range map[string]float32{" ": 15, "." + want.Name: 30, "<|end|>": 30} { // thoughts end at once
		ids, err := e.Tokenizer().Encode(text, llmrun.EncodeOptions{ParseSpecial: true})
		require.NoError(t, err)
		for _, id := range ids {
			o.Sampling.LogitBias[id] = bias
		}
	}
	o.Chat = llmrun.ChatOptions{Tools: tools, ToolChoice: llmrun.ToolsRequired, Thinking: thinking}
	var got llmrun.Answer
	for p, err := range s.ChatMessages(t.Context(), []llmrun.Message{{Role: "user", Content: "How is the weather?"}}, o) {
		require.NoError(t, err)
		got.Add(&p)
	}
	require.Empty(t, got.Text())
	require.Len(t, got.ToolCalls(), 1)
	require.Equal(t, llmrun.StopEOS, s.Stats().StopReason)
	call := got.ToolCalls()[0]
	require.Equal(t, want.Name, call.Name)
	if want.Parameters == nil {
		require.Equal(t, "{}", strings.Join(strings.Fields(call.Arguments), ""))
		return
	}
	validator, err := testutil.NewJSONSchema(want.Parameters)
	require.NoError(t, err)
	require.NoError(t, validator.Validate(call.Arguments), want.Name)
}

// TestRequiredCallsAreNotHeldToTheAnswersSchema requires a call of a model whose calls are no JSON, which nothing holds, besides a schema of the
// answer: the call is the one without the schema.
func TestRequiredCallsAreNotHeldToTheAnswersSchema(t *testing.T) {
	template, err := os.ReadFile(filepath.Join("text", "jinja", "testdata", "LFM2-8B-A1B.jinja"))
	require.NoError(t, err)
	s := newSession(t, open(t, ".", llmrun.Options{Threads: 2, FS: overlay(t, demoModel, map[string]string{"chat_template.jinja": string(template)})}))
	seed := uint64(3)
	answers := map[string]string{}
	for _, schema := range []string{"", `{"properties":{"only":{"const":"this"}},"required":["only"]}`} {
		o := llmrun.GenerateOptions{MaxTokens: 24, Schema: schema, Sampling: llmrun.Sampling{Temperature: 1, Seed: &seed}}
		o.Chat = llmrun.ChatOptions{Tools: []llmrun.Tool{{Name: "weather"}}, ToolChoice: llmrun.ToolsRequired}
		for p, err := range s.ChatMessages(t.Context(), []llmrun.Message{{Role: "user", Content: "How is the weather?"}}, o) {
			require.NoError(t, err)
			answers[schema] += p.Text
		}
		require.NotEmpty(t, answers[schema])
		require.Equal(t, answers[""], answers[schema])
	}
}
