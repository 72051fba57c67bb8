package answer

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// read returns the parts of an answer that comes in pieces of the lengths that next returns, as text.
func read(p *Parser, answer string, next func() int) string {
	var parts []Part
	for len(answer) > 0 {
		n := min(next(), len(answer))
		parts = Join(parts, p.Push(answer[:n]))
		answer = answer[n:]
	}
	return show(Join(parts, p.Finish()))
}

// show writes parts as one line: text, (thoughts), name{arguments}; an incomplete call ends with an ellipsis.
func show(parts []Part) string {
	var b strings.Builder
	for _, p := range parts {
		switch {
		case p.Kind == Thinking:
			fmt.Fprintf(&b, "(%s)", p.Text)
		case p.Kind == Text:
			b.WriteString(p.Text)
		default:
			fmt.Fprintf(&b, "<%s%s", p.Name, p.Text)
			if !p.Ends {
				b.WriteString("…")
			}
			b.WriteString(">")
		}
	}
	return b.String()
}

func testTools() *Tools {
	t := &Tools{}
	t.Add("weather", []byte(`{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},"where":{"type":"object"},"on":{"type":"boolean"}}}`))
	t.Add("stop", nil)
	return t
}

// forms are answers in the syntax of a family, whose template has the marks.
var forms = []struct{ name, marks, answer, want string }{
	{"hermes", "<tool_call>", "Let me see.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Zürich\", \"days\": 2}}\n</tool_call>", `Let me see.<weather{"city": "Zürich", "days": 2}>`},
	{"hermes parallel", "<tool_call>", "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"A\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"stop\", \"arguments\": {}}\n</tool_call>", `<weather{"city": "A"}><stop{}>`},
	{"hermes, arguments first", "<tool_call>", `<tool_call>{"arguments": {"b": [1, {"}": "\"{"}], "a": null}, "name": "weather"}</tool_call>done`, `<weather{"b": [1, {"}": "\"{"}], "a": null}>done`},
	{"hermes, arguments as text", "<tool_call>", `<tool_call>{"name": "weather", "arguments": "{\"city\": \"A\"}"}</tool_call>`, `<weather{"city": "A"}>`},
	{"hermes, no arguments", "<tool_call>", `<tool_call>{"name": "stop"}</tool_call>`, `<stop{}>`},
	{"hermes, as in requests", "<tool_call>", `<tool_call>{"type": "function", "function": {"name": "stop", "arguments": {}}}</tool_call>!`, `<stop{}>!`},
	{"hermes, thoughts", "<tool_call><think>", "<think>\nA <tool_call> is due.\n</think>\n\n<tool_call>\n{\"name\": \"stop\", \"arguments\": {}}\n</tool_call>", `(A <tool_call> is due.)<stop{}>`},
	{"qwen coder", "<tool_call><function=", "Yes.\n\n<tool_call>\n<function=weather>\n<parameter=city>\nNew\n\"York\"\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=where>\n{\"a\": [1]}\n</parameter>\n<parameter=on>\nTrue\n</parameter>\n</function>\n</tool_call>", `Yes.<weather{"city": "New\n\"York\"", "days": 3, "where": {"a": [1]}, "on": true}>`},
	{"qwen coder without its wrapper", "<tool_call><function=", "<function=stop>\n</function>", `<stop{}>`},
	{"seed", "<seed:tool_call><seed:think>", "<seed:think>hm</seed:think><seed:tool_call>\n<function=weather>\n<parameter=city>5</parameter>\n<parameter=days>5</parameter>\n</function>\n</seed:tool_call>", `(hm)<weather{"city": "5", "days": 5}>`},
	{"seed, as Python writes it", "<seed:tool_call>", "<seed:tool_call><function=weather><parameter=where>{'a': [True, None, 'x']}</parameter><parameter=x>['y']</parameter></function></seed:tool_call>", `<weather{"where": {"a": [true, null, "x"]}, "x": ["y"]}>`},
	{"glm", "<tool_call><arg_key>", "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>A</arg_value>\n<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>\n<tool_call>stop</tool_call>", `<weather{"city": "A", "days": 2}><stop{}>`},
	{"hunyuan", "<tool_calls>", "<tool_calls><tool_call>weather\n```json\n{\"city\": \"A\"}\n```</tool_call>\n<tool_call>stop\n```json\n{}\n```</tool_call></tool_calls>", `<weather{"city": "A"}><stop{}>`},
	{"jamba", "<tool_calls>", "<tool_calls>[\n{\"name\": \"weather\", \"arguments\": {\"city\": \"A\"}},\n{\"name\": \"stop\", \"arguments\": {}}\n]</tool_calls>", `<weather{"city": "A"}><stop{}>`},
	{"hunyuan 2", "<tool_calls><tool_sep>", "<tool_calls>\n<tool_call>weather<tool_sep>\n<arg_key>city</arg_key>\n<arg_value>A</arg_value>\n</tool_call>\n</tool_calls>", `<weather{"city": "A"}>`},
	{"llama", `{"name": "parameters": `, `{"name": "weather", "parameters": {"city": "A"}}`, `<weather{"city": "A"}>`},
	{"llama, several", `{"name": "parameters": `, `{"name": "weather", "parameters": {"city": "A"}}; {"name": "stop", "parameters": {}}`, `<weather{"city": "A"}><stop{}>`},
	{"llama, unknown", `{"name": "parameters": `, `{"name": "Ann", "parameters": {"age": 4}} is an object.`, `{"name": "Ann", "parameters": {"age": 4}} is an object.`},
	{"llama, other JSON", `{"name": "parameters": `, "\n{\"title\": \"x\"}", "\n{\"title\": \"x\"}"},
	{"llama, later", `{"name": "parameters": `, `So: {"name": "stop", "parameters": {}}`, `So: {"name": "stop", "parameters": {}}`},
	{"llama tag", "<|python_tag|>", `<|python_tag|>weather.call(city="A", days=2)`, `<weather{"city": "A", "days": 2}>`},
	{"llama tag, JSON", "<|python_tag|>", `<|python_tag|>{"type": "function", "name": "weather", "parameters": {"city": "A"}}<|eom_id|>`, `<weather{"city": "A"}><|eom_id|>`},
	{"llama 4", "<|python_start|>", `<|python_start|>[weather(city='A', days=-2), stop()]<|python_end|>`, `<weather{"city": "A", "days": -2}><stop{}>`},
	{"mistral list", "[TOOL_CALLS]", `[TOOL_CALLS][{"name": "weather", "arguments": {"city": "A"}, "id": "abcdefghi"}, {"name": "stop", "arguments": {}, "id": "123456789"}]`, `<weather{"city": "A"}><stop{}>`},
	{"mistral names", "[TOOL_CALLS][ARGS]", `[TOOL_CALLS]weather[ARGS]{"city": "A"}[TOOL_CALLS]stop[ARGS]{}`, `<weather{"city": "A"}><stop{}>`},
	{"mistral ids", "[TOOL_CALLS][ARGS][CALL_ID]", `ok[TOOL_CALLS]weather[CALL_ID]abcdefghi[ARGS]{"city": "A"}`, `ok<weather{"city": "A"}>`},
	{"magistral", "[TOOL_CALLS][THINK]", `[THINK]hm[/THINK]yes [TOOL_CALLS]stop{}`, `(hm)yes<stop{}>`},
	{"deepseek", "<｜tool▁calls▁begin｜></think>", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{\"city\": \"A\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>stop\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>", `<weather{"city": "A"}><stop{}>`},
	{"deepseek 3.1", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\": \"A\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>", `<weather{"city": "A"}>`},
	{"deepseek 3.2", "<｜DSML｜function_calls>", "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"weather\">\n<｜DSML｜parameter name=\"city\" string=\"true\">5</｜DSML｜parameter>\n<｜DSML｜parameter name=\"x\" string=\"false\">[1]</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>", `<weather{"city": "5", "x": [1]}>`},
	{"kimi", "<|tool_calls_section_begin|>", `<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>{"city": "A"}<|tool_call_end|><|tool_calls_section_end|>`, `<weather{"city": "A"}>`},
	{"phi 4", "<|tool_call|>", `<|tool_call|>[{"name": "weather", "arguments": {"city": "A"}}]<|/tool_call|>`, `<weather{"city": "A"}>`},
	{"granite", "<|tool_call|>", `<|tool_call|>[{"name": "weather", "arguments": {"city": "A"}}]`, `<weather{"city": "A"}>`},
	{"granite thoughts", "<think><response>", "<think>hm</think><response>yes</response>", `(hm)yes`},
	{"granite 3.2", "Here is my thought process:Here is my response:", "Here is my thought process: hm\n\nHere is my response: yes", `(hm)yes`},
	{"command r", "<|START_ACTION|><|START_THINKING|><|START_RESPONSE|>", "<|START_THINKING|>hm<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"weather\", \"parameters\": {\"city\": \"A\"}}\n]<|END_ACTION|>", `(hm)<weather{"city": "A"}>`},
	{"command a", "<|START_ACTION|><|START_THINKING|><|START_RESPONSE|>", "<|START_THINKING|>hm<|END_THINKING|><|START_RESPONSE|>yes<|END_RESPONSE|>", `(hm)yes`},
	{"command r 2024", "Action: tool_name", "Action:```json\n[\n    {\n        \"tool_name\": \"weather\",\n        \"parameters\": {\"city\": \"A\"}\n    }\n]\n```", `<weather{"city": "A"}>`},
	{"lfm2", "<|tool_list_start|>", `<|tool_call_start|>[weather(city="it's", days=2, where={'a': [True, None, 1.5e3]})]<|tool_call_end|>Now.`, `<weather{"city": "it's", "days": 2, "where": {"a": [true, null, 1.5e3]}}>Now.`},
	{"minicpm", "<|tool_call_start|>", "<|tool_call_start|>\n```python\nweather(city='A')\n```\n<|tool_call_end|>", `<weather{"city": "A"}>`},
	{"positions", "<|tool_call_start|>", `<|tool_call_start|>[weather("A", 2)]<|tool_call_end|>`, `<weather{"city": "A", "days": 2}>`},
	{"gemma 3", "```tool_code", "```tool_code\nweather(city=\"A\")\n```", `<weather{"city": "A"}>`},
	{"function gemma", "<start_function_call>", "<start_function_call>call:weather{city:<escape>A, {b}<escape>,days:2,where:{a:[<escape>x<escape>,true]}}<end_function_call>", `<weather{"city": "A, {b}", "days": 2, "where": {"a": ["x", true]}}>`},
	{"gemma 4", "<|tool_call><|channel>thought<|tool_response>", `<|channel>thought` + "\nhm\n" + `<channel|><|tool_call>call:weather{city:<|"|>A<|"|>,days:2}<tool_call|><|tool_response>`, `(hm)<weather{"city": "A", "days": 2}>`},
	{"functionary 3.1", "<function=", `<function=weather>{"city": "A"}</function><function=stop>{}</function>`, `<weather{"city": "A"}><stop{}>`},
	{"functionary 3.2", ">>>all", ">>>all\nLet me >>> see.\n>>>weather\n{\"city\": \"A\"}>>>stop\n{}", `Let me >>> see.<weather{"city": "A"}><stop{}>`},
	{"functionary 3.2, text behind calls", ">>>all", ">>>stop\n{}>>>all\nDone.", `<stop{}>Done.`},
	{"functionary 3.2, no tool", ">>>all", ">>>allow\nx >>>alls", ">>>allow\nx >>>alls"},
	{"apertus", "<|tools_prefix|><|inner_prefix|>", `<|inner_prefix|>hm<|inner_suffix|><|tools_prefix|>[{"weather": {"city": "A"}}, {"stop": {}}]<|tools_suffix|>`, `(hm)<weather{"city": "A"}><stop{}>`},
	{"minimax", "<minimax:tool_call><think>", "<minimax:tool_call>\n<invoke name=\"weather\">\n<parameter name=\"city\">A</parameter>\n</invoke>\n<invoke name=\"stop\">\n</invoke>\n</minimax:tool_call>", `<weather{"city": "A"}><stop{}>`},
	{"nemotron", "<TOOLCALL>", `<TOOLCALL>[{"name": "weather", "arguments": {"city": "A"}}]</TOOLCALL>`, `<weather{"city": "A"}>`},
	{"internlm", "<|action_start|>", "<|action_start|><|plugin|>\n{\"name\": \"weather\", \"parameters\": {\"city\": \"A\"}}<|action_end|>", `<weather{"city": "A"}>`},
	{"olmo", "<function_calls>", "<function_calls>\nweather(city=\"A\")\nstop()\n</function_calls>", `<weather{"city": "A"}><stop{}>`},
	{"firefunction", "functools[", ` functools[{"name": "weather", "arguments": {"city": "A"}}]`, `<weather{"city": "A"}>`},

	{"no mark", "<tool_call><think>", "a <tool_calls> <tool b <think> </think> [x", "a <tool_calls> <tool b <think> </think> [x"},
	{"half a mark at the end", "<tool_call><think>", "a\n <tool_ca", "a\n <tool_ca"},
	{"a mark before text", "<tool_call>", "a\n<tool_call> is a mark, <tool_call>{\"name\": \"stop\"}</tool_call>", "a\n<tool_call> is a mark,<stop{}>"},
	{"a mark at the end", "<tool_call>", "a\n<tool_call>\n", "a\n<tool_call>\n"},
	{"cut off", "<tool_call>", `<tool_call>{"name": "weather", "arguments": {"city": "A`, `<weather{"city": "A…>`},
	{"wrong brackets", "<tool_call>", `<tool_call>{"name": "weather", "arguments": {"city": ]}}`, `<weather{"city": …>]}}`},
	{"thoughts without an end", "<think>", "<think>hm \n", "(hm \n)"},
	{"empty thoughts", "<think>", "<think>\n\n</think>\n\nyes", "yes"},
	{"white space", "<think>", " \n yes \n", " \n yes \n"},
}

// TestFormsOfCalls reads each answer whole, byte by byte, and in random pieces.
func TestFormsOfCalls(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, form := range forms {
		f := New(form.marks, nil)
		parser := func() *Parser { return f.NewParser("", testTools()) }
		require.Equal(t, form.want, read(parser(), form.answer, func() int { return 1 << 30 }), form.name)
		require.Equal(t, form.want, read(parser(), form.answer, func() int { return 1 }), "%s, byte by byte", form.name)
		for range 20 {
			require.Equal(t, form.want, read(parser(), form.answer, func() int { return 1 + random.IntN(9) }), "%s, in pieces", form.name)
		}
		for _, part := range strings.Split(form.want, "<")[1:] {
			if i := strings.Index(part, "{"); strings.HasSuffix(part, "}>") && i >= 0 {
				require.True(t, json.Valid([]byte(part[i:len(part)-1])), part)
			}
		}
	}
}

// TestPromptsThatBeginThoughts finds the marks at the ends of prompts.
func TestPromptsThatBeginThoughts(t *testing.T) {
	f := New("<think></think><seed:think>[THINK]", nil)
	for prompt, want := range map[string]string{
		"<|im_start|>assistant\n<think>\n": "</think>", "a<think>\n\n</think>\n\n": "", "user: <think>\nassistant:": "", "[THINK]": "[/THINK]", "": "",
		"<seed:think><seed:cot_budget_reflect>\n": "</seed:think>",
	} {
		require.Equal(t, want, f.Opened(prompt), prompt)
	}
	require.Equal(t, "(hm)yes", read(f.NewParser("</think>", nil), "hm\n</think>\nyes", func() int { return 1 }))
	functionary := New(">>>all", nil)
	require.Equal(t, ">>>", functionary.Begun("assistant\n\n>>>"))
	require.Empty(t, functionary.Begun("assistant\n\n"))
	require.Empty(t, f.Begun("assistant\n\n>>>"))
	require.Equal(t, "Hi >>>all\n", read(functionary.NewParser("", nil), ">>>all\nHi >>>all\n", func() int { return 1 }), "without tools the answer is marked, too")
	require.Equal(t, "</think>yes", read(f.NewParser("", nil), "</think>yes", func() int { return 1 }))
}
