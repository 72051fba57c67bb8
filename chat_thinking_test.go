package llmrun

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/text/channel"
)

// ask is a conversation for tests of prompts.
var ask = []Message{{Role: "user", Content: "hi"}}

// TestThinkingLevels finds the switches of templates, and checks how prompts end at each level.
func TestThinkingLevels(t *testing.T) {
	file := func(name string) string {
		source, err := os.ReadFile(filepath.Join("text/jinja/testdata", name+".jinja"))
		require.NoError(t, err)
		return string(source)
	}
	const ending = `{% if add_generation_prompt %}A:{% endif %}`
	for _, c := range []struct {
		source string
		ends   map[string]string // the end of the prompt at each level; "" is the default
	}{
		{file("Qwen-Qwen3-0.6B"), map[string]string{"": "assistant\n", "on": "assistant\n", "off": "assistant\n<think>\n\n</think>\n\n"}},
		{file("HuggingFaceTB-SmolLM3-3B"), map[string]string{"": "assistant\n", "on": "assistant\n", "off": "assistant\n<think>\n\n</think>\n"}},
		{file("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B"), map[string]string{"": "<think>\n</think>", "on": "<｜Assistant｜><think>\n", "off": "<think>\n</think>"}},
		{file("Qwen-Qwen2.5-7B-Instruct"), map[string]string{"": "assistant\n"}},
		{file("google-gemma-2-2b-it"), map[string]string{"": "model\n"}},
		{file("mistralai-Mistral-Nemo-Instruct-2407"), map[string]string{"": "[/INST]"}},
		{`{{ 'deep ' if thinking }}` + ending, map[string]string{"": "A:", "on": "deep A:", "off": "A:"}},
		{`{{ reasoning_effort | default('medium') }} ` + ending, map[string]string{"": "medium A:", "on": "medium A:", "low": "low A:", "medium": "medium A:", "high": "high A:"}},
		{`{{ reasoning_effort | default('none') }} ` + ending, map[string]string{"": "none A:", "off": "none A:", "on": "medium A:", "low": "low A:", "medium": "medium A:", "high": "high A:"}},
		{
			`{{ enable_thinking }} {{ reasoning_effort }} ` + ending,
			map[string]string{"": "  A:", "off": "False  A:", "on": "True  A:", "low": "True low A:", "medium": "True medium A:", "high": "True high A:"},
		},
		{`{{ thinking_budget | default(-1) }} ` + ending, map[string]string{"": "-1 A:", "on": "-1 A:", "off": "0 A:", "low": "512 A:", "medium": "2048 A:", "high": "8192 A:"}},
		{ending + `{# <think> #}`, map[string]string{"": "A:", "on": "A:<think>\n", "off": "A:<think>\n\n</think>\n\n"}},
		{`{% if add_generation_prompt %}A:<think>` + "\n" + `{% endif %}`, map[string]string{"": "<think>\n", "on": "A:<think>\n", "off": "A:<think>\n\n</think>\n\n"}},
		{`{{ messages[0].thinking }}` + ending, map[string]string{"": "A:"}}, // a field, and no switch
	} {
		f := formatOf(t, c.source)
		require.Len(t, f.levelNames(), len(c.ends)-1, c.source)
		for _, level := range []string{"", ThinkOff, ThinkOn, ThinkLow, ThinkMedium, ThinkHigh} {
			text, begun, err := f.prompt(ask, ChatOptions{Thinking: level}, nil)
			if end, ok := c.ends[level]; ok {
				require.NoError(t, err)
				require.True(t, strings.HasSuffix(text+begun, end), "%q at level %q: %q", c.source, level, text+begun)
				continue
			}
			require.ErrorIs(t, err, ErrOptions)
			want := "no switch"
			if len(c.ends) > 1 {
				want = "this model can have " + strings.Join(f.levelNames(), ", ")
			}
			require.ErrorContains(t, err, want)
		}
	}

	f := formatOf(t, `{{ reasoning_effort | default('medium') }} `+ending)
	f.channels = &channel.Format{}
	text, begun, err := f.prompt(ask, ChatOptions{Thinking: ThinkOff}, nil)
	require.NoError(t, err)
	require.Equal(t, "low A:<|channel|>final<|message|>", text+begun)
	text, begun, err = f.prompt(ask, ChatOptions{Thinking: ThinkHigh, Extra: map[string]any{"reasoning_effort": "huge"}}, nil)
	require.NoError(t, err)
	require.Equal(t, "huge A:", text+begun, "what the caller sets itself is meant")
}

// TestThoughtsOfPrompts reads answers whose thoughts the prompt begins, ends, or leaves to the model.
func TestThoughtsOfPrompts(t *testing.T) {
	f := formatOf(t, `{% if add_generation_prompt %}A:{% endif %}{# <think> #}`)
	for level, answers := range map[string]map[string]string{
		"":       {"<think>\nhm\n</think>\n\nyes": "(hm)yes", "yes": "()yes", " yes <think>": "() yes <think>"},
		ThinkOn:  {"hm\n</think>\n\nyes": "(hm)yes", "hm": "(hm)"},
		ThinkOff: {"yes\n": "()yes\n", "</think>": "()</think>"},
	} {
		o := ChatOptions{Thinking: level}
		text, begun, err := f.prompt(ask, o, nil)
		require.NoError(t, err)
		for answer, want := range answers {
			for _, n := range []int{1, 100} {
				got := readAnswer(f.reading(text, begun, &o), answer, n)
				require.Equal(t, want, "("+got.Thinking()+")"+got.Text(), "level %q: %q", level, answer)
			}
		}
	}
}
