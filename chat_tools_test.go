package llmrun

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/text/answer"
	"github.com/llmrun/llmrun/text/jinja"
)

// formatOf returns the chat format of a template without a tokenizer.
func formatOf(t *testing.T, source string) *chatFormat {
	t.Helper()
	parsed, err := jinja.Parse(source)
	require.NoError(t, err)
	return &chatFormat{source: source, template: parsed, answers: answer.New(source, nil), bos: "<s>", eos: "</s>"}
}

// weather is a tool for tests.
var weather = Tool{
	Name: "weather", Description: "the weather of a city",
	Parameters: []byte(`{"type":"object","properties":{"city":{"type":"string","description":"its name"},"days":{"type":"integer","description":"how many"},"units":{"type":"array","description":"of the answer"}}}`),
}

// weatherCalls are a call and, for models that make several calls, another one.
var weatherCalls = []ToolCall{
	{ID: "abcdefghi", Name: "weather", Arguments: `{"city": "Zürich \"West\"", "days": 2, "units": ["C", 1.5, true, null, {"a": {}}]}`},
	{ID: "jklmnopqr", Name: "weather", Arguments: `{"city": "Rome"}`},
}

// readAnswer returns the answer that comes in pieces of n bytes behind a prompt.
func readAnswer(how *reading, text string, n int) *Answer {
	var r reader
	r.begin(how)
	got := &Answer{}
	add := func(s *sampled) {
		got.Add(&s.Piece)
		for i := range s.more {
			got.Add(&s.more[i])
		}
	}
	for len(text) > 0 {
		k := min(n, len(text))
		next := sampled{Piece: Piece{Text: text[:k]}}
		r.read(&next)
		add(&next)
		text = text[k:]
		if next.stopped {
			break
		}
	}
	last := sampled{Piece: Piece{ID: noToken}}
	r.finish(&last, true)
	add(&last)
	r.close()
	return got
}

// TestTemplatesWriteCallsThatAreReadBack renders a conversation with calls by each template, whether it has tools or is given them as
// text, takes what it writes for the calls as a model's answer to the same conversation, and reads the calls back: whole, byte by byte,
// and behind a required beginning.
func TestTemplatesWriteCallsThatAreReadBack(t *testing.T) {
	found := 0
	for _, dir := range []string{"text/jinja/testdata", "testdata/templates", "../shared/templates"} {
		paths, err := filepath.Glob(filepath.Join(dir, "*.jinja"))
		require.NoError(t, err)
		for _, path := range paths {
			source, err := os.ReadFile(path)
			require.NoError(t, err)
			c := formatOf(t, string(source))
			if c.probeTools().offers {
				found++
			}
			t.Run(path, func(t *testing.T) { readBack(t, c) })
		}
	}
	require.GreaterOrEqual(t, found, 5)
	for name, calls := range writtenCalls {
		t.Run(name, func(t *testing.T) {
			readBack(t, formatOf(t, `{% for t in tools %}{{ t | tojson }}{% endfor %}{% for m in messages %}<|{{ m.role }}|>{% if m.tool_calls %}`+
				calls+`{% else %}{{ m.content }}{% endif %}<|im_end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}`))
		})
	}
	t.Run("functionary", func(t *testing.T) { readBack(t, formatOf(t, functionaryTemplate)) })
}

// functionaryTemplate writes conversations as Functionary 3.2 reads them: each part of an answer begins with a name, which is that of a tool
// or all, and the prompt ends with the mark before it.
const functionaryTemplate = `{% for t in tools %}{{ t.function.name + ' // ' + t.function.description + (t.function.parameters | tojson) }}{% endfor %}` +
	`{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>{{ '\n\n' }}` +
	`{% if m.role == 'assistant' %}{% if m.content %}{{ '>>>all\n' + m.content }}{% endif %}{% for c in m.tool_calls %}{{ '>>>' + c.function.name + '\n' + c.function.arguments }}{% endfor %}` +
	`{% else %}{{ m.content }}{% endif %}<|eot_id|>{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>{{ '\n\n>>>' }}{% endif %}`

// writtenCalls are parts of templates that write the calls of a message as families do that have no template in testdata.
var writtenCalls = map[string]string{
	"text": `<｜tool▁calls▁begin｜>{% for c in m.tool_calls %}{{ '<｜tool▁call▁begin｜>' + c.function.name + '<｜tool▁sep｜>' + c.function.arguments + '<｜tool▁call▁end｜>' }}{% endfor %}<｜tool▁calls▁end｜>`,
	"elements": `{% for c in m.tool_calls %}<tool_call>
<function={{ c.function.name }}>
{% for k, v in c.function.arguments.items() %}<parameter={{ k }}>
{{ v if v is string else v | tojson }}
</parameter>
{% endfor %}</function>
</tool_call>
{% endfor %}`,
	"keys": `{% for c in m.tool_calls %}<tool_call>{{ c.function.name }}
{% for k, v in c.function.arguments.items() %}<arg_key>{{ k }}</arg_key>
<arg_value>{{ v if v is string else v | tojson }}</arg_value>
{% endfor %}</tool_call>{% endfor %}`,
	"invoke": `<minimax:tool_call>{% for c in m.tool_calls %}<invoke name="{{ c.function.name }}">{% for k, v in c.function.arguments.items() %}<parameter name="{{ k }}">{{ v if v is string else v | tojson }}</parameter>{% endfor %}</invoke>
{% endfor %}</minimax:tool_call>`,
	"names":    `{% for c in m.tool_calls %}[TOOL_CALLS]{{ c.function.name }}[ARGS]{{ c.function.arguments | tojson }}{% endfor %}`,
	"sections": `<|tool_calls_section_begin|>{% for c in m.tool_calls %}<|tool_call_begin|>functions.{{ c.function.name }}:{{ loop.index0 }}<|tool_call_argument_begin|>{{ c.function.arguments | tojson }}<|tool_call_end|>{% endfor %}<|tool_calls_section_end|>`,
	"list":     `<|tool_call|>[{% for c in m.tool_calls %}{{ c.function | tojson }}{{ ", " if not loop.last }}{% endfor %}]<|/tool_call|>`,
	"actions":  `<|START_ACTION|>[{% for c in m.tool_calls %}{"tool_call_id": "{{ loop.index0 }}", "tool_name": "{{ c.function.name }}", "parameters": {{ c.function.arguments | tojson }}}{{ ", " if not loop.last }}{% endfor %}]<|END_ACTION|>`,
	"alone":    `{{ '{"name": "' + m.tool_calls[0].function.name + '", "parameters": ' + m.tool_calls[0].function.arguments | tojson + '}' }}`,
	"none":     `{{ m.content }}{# <|tool_call_start|> #}`,
}

func readBack(t *testing.T, c *chatFormat) {
	calls := weatherCalls
	if c.probeTools().single {
		calls = calls[:1]
	}
	o := ChatOptions{Tools: []Tool{weather}}
	asked := []Message{{Role: "user", Content: "How is the weather?"}}
	text, begun, err := c.prompt(asked, o, nil)
	require.NoError(t, err)
	require.Contains(t, text, `its name`)
	how := c.reading(text, begun, &o)

	closed := o
	closed.NoGenerationPrompt = true
	before, _, err := c.prompt(asked, closed, nil)
	require.NoError(t, err)
	all, _, err := c.prompt(append(asked, Message{Role: "assistant", ToolCalls: calls}), closed, nil)
	require.NoError(t, err)
	if rest, ok := strings.CutPrefix(all, before); ok {
		all = rest
	} else { // a template that ends a conversation without an answer by a mark
		all = all[strings.LastIndex(all, asked[0].Content):]
	}
	at := c.callFormat().FirstCall(all)
	require.GreaterOrEqual(t, at, 0, all)
	reply := strings.TrimRight(all[at:], "\n")
	for _, end := range []string{"<|im_end|>", "<|eot_id|>", "</s>", "<｜end▁of▁sentence｜>", "<|end|>", "<end_of_turn>"} {
		reply = strings.TrimRight(strings.TrimSuffix(reply, end), "\n")
	}
	reply = strings.TrimPrefix(reply, how.begun)
	if how.end != "" {
		reply = "hm\n" + how.end + "\n\n" + reply
	}
	for _, n := range []int{1 << 20, 1, 3} {
		got := readAnswer(how, reply, n)
		require.Empty(t, got.Text())
		requireCalls(t, calls, got)
	}

	// Behind its beginning, the rest of the call is the answer.
	for _, name := range []string{"", "weather"} {
		o.ToolChoice, o.ToolName, o.OneToolCall = ToolsRequired, name, true
		text, begun, err := c.prompt(asked, o, nil)
		require.NoError(t, err)
		end, call, err := c.callBehind(text+begun, &o)
		require.NoError(t, err)
		thoughts, begin := "", begun
		if end != "" { // the model thinks first
			thoughts, begin = "hm\n"+end+call, strings.TrimPrefix(call, "\n\n")
		}
		_, rest, ok := strings.Cut(reply, begin)
		require.True(t, ok, "%q does not begin %q", begin, reply)
		got := readAnswer(c.reading(text, begun, &o), thoughts+rest, 2)
		require.Empty(t, got.Text())
		require.Equal(t, end != "", got.Thinking() == "hm")
		requireCalls(t, calls[:1], got)
	}

	// The results of the calls are part of the next prompt.
	all, _, err = c.prompt([]Message{
		asked[0],
		{Role: "assistant", Thinking: "hm", ToolCalls: weatherCalls[1:]},
		{Role: "tool", Content: "sunny", ToolCallID: "call_of_another_server", Name: "weather"},
	}, ChatOptions{Tools: []Tool{weather}}, nil)
	require.NoError(t, err)
	require.Contains(t, all, "sunny")
	require.Contains(t, all, "Rome")
	require.NotContains(t, all, "None")
}

func requireCalls(t *testing.T, want []ToolCall, got *Answer) {
	t.Helper()
	calls := got.ToolCalls()
	require.Len(t, calls, len(want))
	for i := range want {
		require.Equal(t, want[i].Name, calls[i].Name)
		require.Equal(t, want[i].Arguments, calls[i].Arguments)
		require.Len(t, calls[i].ID, callIDLength)
		require.True(t, calls[i].Complete())
	}
}

// TestToolsInText renders a conversation with tools by templates that have none: with messages of the system, without, and with thoughts.
func TestToolsInText(t *testing.T) {
	const turns = `{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}`
	const list = "You can call tools. Each line describes one, with the JSON schema of its arguments:\n" +
		`{"name":"stop","description":"ends <all>","parameters":{"type":"object","properties":{}}}` + "\n" +
		"\nTo call a tool, answer with its name and its arguments in this form:\n" +
		"<tool_call>\n{\"name\": \"NAME\", \"arguments\": {\"ARGUMENT\": \"VALUE\"}}\n</tool_call>" +
		"\nThe next message then has the result. Answer without a call if you need no tool."
	o := ChatOptions{Tools: []Tool{{Name: "stop", Description: "ends <all>"}}}
	call := Message{Role: "assistant", Content: "Well.", ToolCalls: []ToolCall{{Name: "stop", Arguments: `{"now": true}`}}}
	conversation := []Message{
		{Role: "system", Content: "Be brief."},
		{Role: "user", Content: "Stop."},
		call,
		{Role: "tool", Content: "a"},
		{Role: "tool", Content: "b"},
		{Role: "user", Content: "Thanks."},
	}
	const rest = "<user>Stop.</><assistant>Well.\n<tool_call>\n{\"name\": \"stop\", \"arguments\": {\"now\": true}}\n</tool_call></>" +
		"<user><tool_response>\na\n</tool_response>\n<tool_response>\nb\n</tool_response>\nThanks.</>"
	const noSystem = `{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}` + turns
	for _, c := range []struct {
		source   string
		messages []Message
		want     string
	}{
		{turns, conversation, "<system>Be brief.\n\n" + list + "</>" + rest + "<assistant>"},
		{turns, conversation[1:], "<system>" + list + "</>" + rest + "<assistant>"},
		{turns, nil, "<system>" + list + "</><assistant>"},
		{noSystem, conversation[1:], strings.Replace(rest, "<user>", "<user>"+list+"\n\n", 1) + "<assistant>"},
		{noSystem, conversation[2:3], "<user>" + list + "</><assistant>" + strings.TrimPrefix(strings.Split(rest, "</>")[1], "<assistant>") + "</><assistant>"},
		{turns + "{# <think></think> #}", conversation[1:2], "<system>" + list + "</><user>Stop.</><assistant>"},
	} {
		f := formatOf(t, c.source)
		text, begun, err := f.prompt(c.messages, o, nil)
		require.NoError(t, err)
		require.Equal(t, c.want, text, c.source)
		require.Empty(t, begun)
	}
	f := formatOf(t, turns)
	text, _, err := f.prompt(conversation, ChatOptions{}, nil)
	require.NoError(t, err)
	require.Equal(t, "<system>Be brief.</>"+rest+"<assistant>", text, "without tools the results are still messages of the user")
	own, _, err := formatOf(t, turns+"{# 'tool' #}").prompt(conversation, ChatOptions{}, nil)
	require.NoError(t, err)
	require.Contains(t, own, "<tool>a</><tool>b</>", "a template that has results writes them itself")

	o.ToolChoice = ToolsRequired // there is only one
	text, begun, err := f.prompt(conversation[1:2], o, nil)
	require.NoError(t, err)
	require.Equal(t, "<tool_call>\n{\"name\": \"stop\", \"arguments\": {", begun)
	two := ChatOptions{Tools: append(o.Tools, weather), ToolChoice: ToolsRequired}
	_, either, err := f.prompt(conversation[1:2], two, nil)
	require.NoError(t, err)
	require.Equal(t, "<tool_call>\n{\"name\": \"", either)
	two.ToolName = "weather"
	_, named, err := f.prompt(conversation[1:2], two, nil)
	require.NoError(t, err)
	require.Equal(t, "<tool_call>\n{\"name\": \"weather\", \"arguments\": {", named)
	got := readAnswer(f.reading(text, begun, &o), "\"now\": 1}}\n</tool_call>", 1)
	require.Equal(t, []ToolCall{{ID: got.ToolCalls()[0].ID, Name: "stop", Arguments: `{"now": 1}`}}, got.ToolCalls())
	bare := readAnswer(f.reading(text, "", &o), `{"name": "stop", "arguments": {}}`, 1)
	require.Equal(t, "{}", bare.ToolCalls()[0].Arguments, "a call without marks")

	for _, tool := range []Tool{{}, {Name: "x", Parameters: []byte(`[]`)}, {Name: "x", Parameters: []byte(`{`)}} {
		_, _, err := f.prompt(conversation, ChatOptions{Tools: []Tool{tool}}, nil)
		require.ErrorIs(t, err, ErrOptions)
	}
}

// TestTemplatesThatIterateOverTools renders templates without tools: none is what transformers gives them, and one that fails with it
// gets no variable, or an empty list.
func TestTemplatesThatIterateOverTools(t *testing.T) {
	for source, want := range map[string]string{
		`{% if tools is none %}none{% endif %}`:                                             "none",
		`{% for t in tools %}{{ t }}{% endfor %}{{ 'no' if tools is defined else 'yes' }}`:  "yes",
		`{{ tools | length }}{{ tools[0:] | length }}{% for t in tools + [] %}{% endfor %}`: "00",
	} {
		text, begun, err := formatOf(t, source).prompt([]Message{{Role: "user", Content: "hi"}}, ChatOptions{}, nil)
		require.NoError(t, err)
		require.Equal(t, want, text, source)
		require.Empty(t, begun)
	}
	_, _, err := formatOf(t, `{{ messages[0].content + 1 }}`).prompt([]Message{{Role: "user", Content: "hi"}}, ChatOptions{}, nil)
	require.ErrorIs(t, err, jinja.ErrRuntime)
}

// TestMarksOfTheVocabulary takes the marks of calls from the vocabulary if the template shows none.
func TestMarksOfTheVocabulary(t *testing.T) {
	f := answer.New("{{ tools }}", func(mark string) bool { return mark == "<|tool_call_start|>" })
	got := readAnswer(&reading{format: f, tools: &answer.Tools{}}, "<|tool_call_start|>[f(a=1)]<|tool_call_end|>", 1)
	require.Len(t, got.ToolCalls(), 1)
	require.JSONEq(t, `{"a":1}`, got.ToolCalls()[0].Arguments)
	got = readAnswer(&reading{format: answer.New("[TOOL_CALLS]", func(string) bool { return true }), tools: &answer.Tools{}}, "<|tool_call_start|>[f(a=1)]", 1)
	require.Empty(t, got.ToolCalls())
}

// TestResultsFollowTheirCalls: by a template that writes one call of a message and takes the name of a result from the last call, as that
// of gpt-oss, each of several calls is followed by its result, whatever the order of the results is.
func TestResultsFollowTheirCalls(t *testing.T) {
	c := formatOf(t, `{% for t in tools %}{{ t | tojson }}{% endfor %}{% set last = namespace(name=none) %}{% for m in messages %}`+
		`{% if m.tool_calls %}{% set f = m.tool_calls[0].function %}call {{ f.name }} {{ f.arguments | tojson }};{% set last.name = f.name %}`+
		`{% elif m.role == 'tool' %}{{ last.name }} gave {{ m.content }};{% else %}{{ m.content }};{% endif %}{% endfor %}`)
	calls := []ToolCall{{ID: "a", Name: "weather", Arguments: "{}"}, {ID: "b", Name: "time", Arguments: "{}"}, {ID: "c", Name: "news", Arguments: "{}"}}
	messages := []Message{
		{Role: "user", Content: "hi"},
		{Role: "assistant", ToolCalls: calls},
		{Role: "tool", Content: "sun", ToolCallID: "a"},
		{Role: "tool", Content: "none", ToolCallID: "c"},
		{Role: "tool", Content: "noon", ToolCallID: "b"},
		{Role: "user", Content: "thanks"},
	}
	text, _, err := c.prompt(messages, ChatOptions{}, nil)
	require.NoError(t, err)
	require.Equal(t, "hi;call weather {};weather gave sun;call time {};time gave noon;call news {};news gave none;thanks;", text)

	messages[3].ToolCallID = "" // of no known call: behind the others
	text, _, err = c.prompt(messages, ChatOptions{}, nil)
	require.NoError(t, err)
	require.Equal(t, "hi;call weather {};weather gave sun;call time {};time gave noon;call news {};news gave none;thanks;", text)
}
