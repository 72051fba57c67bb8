package llmrun_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

// decidedTools are strict tools, and one that is not.
func decidedTools(strict bool) []llmrun.Tool {
	tools := []llmrun.Tool{
		{Name: "weather", Parameters: []byte(`{"type":"object","properties":{"city":{"enum":["Rome","Oslo"]},"days":{"type":"integer","minimum":1,"maximum":7}},"required":["city","days"]}`)},
		{Name: "weather_by_day", Parameters: []byte(`{"type":"object","properties":{"day":{"type":"boolean"}},"required":["day"]}`)},
		{Name: "note", Parameters: []byte(`{"type":"object","properties":{"text":{"type":"string","maxLength":20},"tags":{"type":"array","items":{"type":"string","maxLength":3},"maxItems":2}},"required":["text","tags"]}`)},
		{Name: "stop"},
	}
	for i := range tools {
		tools[i].Strict = strict
	}
	return append(tools, llmrun.Tool{Name: "other", Parameters: tools[0].Parameters})
}

// templateFile reads a chat template of package jinja.
func templateFile(t *testing.T, name string) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("text", "jinja", "testdata", name+".jinja"))
	require.NoError(t, err)
	return string(source)
}

// templatesWithJSON are chat templates of families that write the arguments of calls as JSON; the first six write calls in as many forms.
func templatesWithJSON(t *testing.T) (names, all []string) {
	t.Helper()
	add := func(name, template string) { names, all = append(names, name), append(all, template) }
	written := func(name string) {
		add(name, `{% for t in tools %}{{ t | tojson }}{% endfor %}{% for m in messages %}<|{{ m.role }}|>{% if m.tool_calls %}`+llmrun.WrittenCalls[name]+
			`{% else %}{{ m.content }}{% endif %}<|im_end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}`)
	}
	add("no tools", `{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}<|assistant|>`)
	add("functionary", llmrun.FunctionaryTemplate)
	written("text")
	written("alone")
	for _, name := range []string{"mistralai-Mistral-Nemo-Instruct-2407", "Qwen-Qwen2.5-7B-Instruct", "Qwen-Qwen3-0.6B", "meta-llama-Llama-3.2-3B-Instruct", "HuggingFaceTB-SmolLM3-3B"} {
		add(name, templateFile(t, name))
	}
	for _, name := range []string{"names", "sections", "list", "actions"} {
		written(name)
	}
	return names, all
}

// TestDecidedCallsOfStrictTools lets the model begin a call in the form of each family, which it finishes at temperature 1: its arguments
// are in the schema of the tool if the tool is strict, and often are not if it is not.
func TestDecidedCallsOfStrictTools(t *testing.T) {
	e := open(t, demoModel, llmrun.Options{Threads: 2})
	s := newSession(t, e)
	n, wrong := 0, 0
	names, templates := templatesWithJSON(t)
	for i, family := range names[:testutil.Effort(6, len(names))] {
		t.Run(family, func(t *testing.T) {
			llmrun.UseTemplate(t, e, templates[i])
			for seed := range uint64(testutil.Effort(1, 20)) {
				for _, strict := range []bool{true, false} {
					if !strict && i > 2 {
						continue
					}
					tools := decidedTools(strict)
					i := n % (len(tools) - 1)
					n++
					call := decidedCall(t, e, s, seed, tools[i:min(i+2, len(tools))])
					require.Equal(t, tools[i].Name, call.Name)
					require.True(t, !strict || valid(t, &tools[i], call.Arguments), "%s%s", call.Name, call.Arguments)
					if !valid(t, &tools[i], call.Arguments) {
						wrong++
					}
				}
			}
		})
	}
	require.Greater(t, wrong, 1, "arguments that nothing holds are not valid")
}

func valid(t *testing.T, tool *llmrun.Tool, arguments string) bool {
	t.Helper()
	if tool.Parameters == nil {
		return strings.Join(strings.Fields(arguments), "") == "{}"
	}
	validator, err := testutil.NewJSONSchema(tool.Parameters)
	require.NoError(t, err)
	return json.Valid([]byte(arguments)) && validator.Validate(arguments) == nil
}

// decidedCall returns the call of the first of some tools that the model decides upon: its answer has begun it.
func decidedCall(t *testing.T, e *llmrun.Engine, s *llmrun.Session, seed uint64, tools []llmrun.Tool) llmrun.ToolCall {
	t.Helper()
	begins, err := llmrun.CallBegins(e, tools[0].Name)
	require.NoError(t, err)
	o := llmrun.GenerateOptions{MaxTokens: 60, Sampling: llmrun.Sampling{Temperature: 1, Seed: &seed, LogitBias: map[int32]float32{}}}
	for id := range int32(e.Tokenizer().VocabSize()) { // the arguments begin at once
		if text, _ := e.Tokenizer().Decode([]int32{id}); strings.HasPrefix(strings.TrimSpace(text), "{") {
			o.Sampling.LogitBias[id] = 30
		}
	}
	o.Chat.Tools, o.Chat.Thinking = tools, llmrun.ThinkOff
	if !e.HasThinkingLevel(llmrun.ThinkOff) {
		o.Chat.Thinking = ""
	}
	messages := []llmrun.Message{{Role: "user", Content: "How is the weather?"}}
	prompt, err := e.RenderChat(messages, o.Chat)
	require.NoError(t, err)
	if strings.HasSuffix(prompt, ">>>") {
		begins = strings.TrimPrefix(begins, ">>>")
	}
	var got llmrun.Answer
	for p, err := range llmrun.ChatBegun(t.Context(), s, messages, begins, o) {
		require.NoError(t, err)
		got.Add(&p)
	}
	require.NotEmpty(t, got.ToolCalls(), "%q: %q", begins, got.Text())
	return got.ToolCalls()[0]
}

// TestDecidedCallsOfChannelsAreHeld lets a model with channels begin the header of a call, behind which it writes the arguments of a strict tool, and nothing
// behind them.
func TestDecidedCallsOfChannelsAreHeld(t *testing.T) {
	e := harmonyModel(t)
	s := newSession(t, e)
	for seed := range uint64(testutil.Effort(1, 20)) {
		for i := range len(decidedTools(true)) - 1 {
			tools := decidedTools(true)
			o := llmrun.GenerateOptions{MaxTokens: 60, Sampling: llmrun.Sampling{Temperature: 1, Seed: &seed}, Chat: llmrun.ChatOptions{Tools: tools}}
			var got llmrun.Answer
			begins := "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=functions." + tools[i].Name + " <|constrain|>json<|message|>"
			for p, err := range llmrun.ChatBegun(t.Context(), s, []llmrun.Message{{Role: "user", Content: "How is the weather?"}}, begins, o) {
				require.NoError(t, err)
				got.Add(&p)
			}
			require.Len(t, got.ToolCalls(), 1)
			require.Equal(t, llmrun.StopEOS, s.Stats().StopReason)
			require.Equal(t, tools[i].Name, got.ToolCalls()[0].Name)
			require.True(t, valid(t, &tools[i], got.ToolCalls()[0].Arguments), got.ToolCalls()[0].Arguments)
		}
	}
}

// TestStrictToolsLeaveTextAlone generates answers without calls: they are the same whether the tools are strict or not.
func TestStrictToolsLeaveTextAlone(t *testing.T) {
	e := open(t, demoModel, llmrun.Options{Threads: 2})
	llmrun.UseTemplate(t, e, templateFile(t, "Qwen-Qwen2.5-7B-Instruct"))
	s := newSession(t, e)
	for seed := range uint64(testutil.Effort(2, 20)) {
		var answers [2][]int32
		for i, strict := range []bool{false, true} {
			o := llmrun.GenerateOptions{MaxTokens: 40, Sampling: llmrun.Sampling{Temperature: 1, Seed: &seed}, Chat: llmrun.ChatOptions{Tools: decidedTools(strict)[:1]}}
			for p, err := range s.ChatMessages(t.Context(), []llmrun.Message{{Role: "user", Content: "How is the weather?"}}, o) {
				require.NoError(t, err)
				require.Nil(t, p.Call)
				answers[i] = append(answers[i], p.ID)
			}
		}
		require.Equal(t, answers[0], answers[1])
		require.Greater(t, len(answers[0]), 3)
	}
}

// TestStrictToolsAreRefused asks for strict tools that cannot be held: of a model that writes arguments in another form, and with a schema that is
// not supported. Neither is an error if the tool is not strict, or not offered.
func TestStrictToolsAreRefused(t *testing.T) {
	e := open(t, demoModel, llmrun.Options{Threads: 2})
	refusal := func(o llmrun.ChatOptions) error {
		_, err := e.EncodeChat([]llmrun.Message{{Role: "user", Content: "How is the weather?"}}, o)
		return err
	}
	other := decidedTools(true)[:2]
	other[1].Parameters = []byte(`{"type":"object","properties":{"day":{"not":{}}}}`)
	for template, want := range map[string]error{"Qwen-Qwen2.5-7B-Instruct": llmrun.ErrConstraint, "LFM2-8B-A1B": llmrun.ErrOptions} {
		llmrun.UseTemplate(t, e, templateFile(t, template))
		err := refusal(llmrun.ChatOptions{Tools: other})
		require.ErrorIs(t, err, want)
		require.ErrorContains(t, err, map[error]string{llmrun.ErrConstraint: "tool weather_by_day: ", llmrun.ErrOptions: "without strict the tool can be used"}[want])
		require.NoError(t, refusal(llmrun.ChatOptions{Tools: other, ToolChoice: llmrun.ToolsNone}))
		loose := decidedTools(false)[:2]
		loose[1].Parameters = other[1].Parameters
		require.NoError(t, refusal(llmrun.ChatOptions{Tools: loose}))
	}
}
