package jinja

import (
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDecodeMessagesErrors(t *testing.T) {
	tests := []struct{ name, json, want string }{
		{"empty", ``, "is truncated"},
		{"truncated", `[{"role": "user", `, "is truncated"},
		{"garbage", `[}`, "malformed JSON at byte"},
		{"trailing data", `[] x`, "after"},
		{"two values", `[] []`, "after"},
		{"no array", `{"role": "user"}`, "messages: must be an array of messages, not an object"},
		{"no object", `["hi"]`, "messages[0]: must be an object, not a string"},
		{"no role", `[{"role":"user","content":"a"},{"content":"b"}]`, "messages[1].role: missing"},
		{"role null", `[{"role":null,"content":"a"}]`, "messages[0].role: must be a string"},
		{"role empty", `[{"role":"","content":"a"}]`, "messages[0].role: must be a string"},
		{"wrong case", `[{"Role":"user","content":"a"}]`, "messages[0].role: missing"},
		{"no content", `[{"role":"user"}]`, "messages[0].content: missing"},
		{"content number", `[{"role":"user","content":5}]`, "messages[0].content: must be a string or a list of parts, not a number"},
		{"duplicate key", `[{"role":"user","content":"a","content":"b"}]`, `[0]: the key "content" is a duplicate`},
		{"deep nesting", strings.Repeat("[", 100000), "nests deeper"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := DecodeMessages([]byte(tt.json))
			require.ErrorIs(t, err, ErrInput)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestDecodeConversation(t *testing.T) {
	in, err := DecodeConversation([]byte(`{"messages":[{"role":"user","content":"Hi"}],"tools":[{"b":1,"a":2}],
		"add_generation_prompt":false,"chat_template_kwargs":{"enable_thinking":false}}`))
	require.NoError(t, err)
	got, err := renderSource("{{ messages[0].content }} {{ tools|tojson }} {{ add_generation_prompt }} {{ enable_thinking }}", in)
	require.NoError(t, err)
	require.Equal(t, `Hi [{"b": 1, "a": 2}] False False`, got)

	in, err = DecodeConversation([]byte(`[]`))
	require.NoError(t, err)
	require.True(t, in.AddGenerationPrompt)

	for source, want := range map[string]string{
		`{"tools":[]}`:                                  "messages: missing",
		`{"messages":[],"temperature":1}`:               "temperature: unknown field",
		`{"messages":[],"tools":{}}`:                    "tools: must be an array, not an object",
		`{"messages":[],"add_generation_prompt":"yes"}`: "add_generation_prompt: must be true or false, not a string",
		`{"messages":[],"chat_template_kwargs":[]}`:     "chat_template_kwargs: must be an object, not an array",
		`5`: "messages: must be an array of messages, not a number",
	} {
		_, err := DecodeConversation([]byte(source))
		require.ErrorIs(t, err, ErrInput)
		require.ErrorContains(t, err, want)
	}
}

// TestValues renders each type of Go value and compares with Python's output.
func TestValues(t *testing.T) {
	ordered := &Object{}
	ordered.Set("z", 1)
	ordered.Set("a", []any{nil, true})
	ordered.Set("z", 2.0)
	numbers, err := DecodeJSON([]byte(`[1, -0, 1.0, 1e3, 12345678901234567890, 1E400]`))
	require.NoError(t, err)
	tests := []struct {
		name string
		v    any
		want string
	}{
		{"ordered object", ordered, "{'z': 2.0, 'a': [None, True]}"},
		{"map is sorted", map[string]any{"b": 1, "a": int64(2)}, "{'a': 2, 'b': 1}"},
		{"strings", []string{"it's", "b"}, `["it's", 'b']`},
		{"messages", []Message{{"user", "x"}}, "[{'role': 'user', 'content': 'x'}]"},
		{"numbers", numbers, "[1, 0, 1.0, 1000.0, 12345678901234567890, inf]"},
		{"float", math.Pi, "3.141592653589793"},
		{"nil", nil, "None"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := renderSource("{{ v }}", Input{Extra: map[string]any{"v": tt.v}})
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestUnsupportedValues(t *testing.T) {
	cycle := map[string]any{}
	cycle["self"] = cycle
	for name, v := range map[string]any{"channel": make(chan int), "struct": struct{}{}, "cycle": cycle} {
		_, err := renderSource("x", Input{Extra: map[string]any{"v": v}})
		require.ErrorIs(t, err, ErrInput, name)
		require.ErrorContains(t, err, "v", name)
	}
}

// TestRenderDoesNotModifyInput checks that rendering does not modify its input and that one template
// can render concurrently.
func TestRenderDoesNotModifyInput(t *testing.T) {
	tpl, err := Parse("{% set messages = messages + [1] %}{{ messages|length }}{% set ns = namespace(m=messages) %}{% set ns.m = 0 %}")
	require.NoError(t, err)
	in := Input{Messages: []any{Message{"user", "x"}}}
	done := make(chan string)
	for range 8 {
		go func() {
			got, _ := tpl.Render(in)
			done <- got
		}()
	}
	for range 8 {
		require.Equal(t, "2", <-done)
	}
	require.Len(t, in.Messages, 1)
}

// TestDefaultTime checks that strftime_now uses the current time if Input.Now is zero.
func TestDefaultTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // its clock stands still
		time.Sleep(100*24*time.Hour + time.Second)
		got, err := renderSource("{{ strftime_now('%Y-%m-%d %H:%M:%S') }}", Input{})
		require.NoError(t, err)
		require.Equal(t, time.Now().Format(time.DateTime), got)
	})
}

func TestBuiltins(t *testing.T) {
	conversation := []any{Message{"system", "S"}, Message{"user", "U"}, Message{"assistant", "A"}, Message{"user", "V"}}
	want := map[string]string{
		"chatml":  "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n",
		"llama2":  "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\nU [/INST] A </s><s>[INST] V [/INST]",
		"llama3":  "<s><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nU<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nA<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nV<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
		"gemma":   "<s><start_of_turn>user\nS\n\nU<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n<start_of_turn>user\nV<end_of_turn>\n<start_of_turn>model\n",
		"phi3":    "<|system|>\nS<|end|>\n<|user|>\nU<|end|>\n<|assistant|>\nA<|end|>\n<|user|>\nV<|end|>\n<|assistant|>\n",
		"zephyr":  "<|system|>\nS</s>\n<|user|>\nU</s>\n<|assistant|>\nA</s>\n<|user|>\nV</s>\n<|assistant|>\n",
		"mistral": "<s>[INST] S\n\nU [/INST] A</s>[INST] V [/INST]",
	}
	require.Len(t, want, len(builtinSources))
	for name := range builtinSources {
		tpl, ok := Builtin(name)
		require.True(t, ok, name)
		got, err := tpl.Render(Input{Messages: conversation, AddGenerationPrompt: true, BOS: "<s>", EOS: "</s>"})
		require.NoError(t, err, name)
		require.Equal(t, want[name], got, name)
	}
	_, ok := Builtin("nope")
	require.False(t, ok)
}

func TestForTokens(t *testing.T) {
	tests := []struct {
		tokens []string
		want   string
	}{
		{nil, "chatml"},
		{[]string{"<|im_start|>", "<|im_end|>"}, "chatml"},
		{[]string{"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}, "llama3"},
		{[]string{"<start_of_turn>", "<end_of_turn>"}, "gemma"},
		{[]string{"<|user|>", "<|assistant|>", "<|end|>"}, "phi3"},
		{[]string{"<|user|>", "<|assistant|>"}, "zephyr"},
		{[]string{"[INST]", "[/INST]"}, "mistral"},
	}
	for _, tt := range tests {
		tpl, name := ForTokens(func(token string) bool {
			for _, have := range tt.tokens {
				if have == token {
					return true
				}
			}
			return false
		})
		require.Equal(t, tt.want, name)
		require.NotNil(t, tpl)
	}
}

// TestRenderReservesBeforeItAllocates renders a template that makes 32 MB of a few bytes. It
// reserves them in steps, and the error of a full budget ends it.
func TestRenderReservesBeforeItAllocates(t *testing.T) {
	tpl, err := Parse(`{% for i in range(32) %}{{ "x" * 500000 }}{% endfor %}`)
	require.NoError(t, err)
	reserved := int64(0)
	in := Input{Granted: 1 << 20, Reserve: func(n int64) error { reserved += n; return nil }}
	text, err := tpl.Render(in)
	require.NoError(t, err)
	require.Len(t, text, 16e6)
	require.GreaterOrEqual(t, reserved, int64(31e6))
	require.Less(t, reserved, int64(40e6))
	full := errors.New("the budget is full")
	in.Reserve = func(int64) error { return full }
	_, err = tpl.Render(in)
	require.ErrorIs(t, err, full)
}
