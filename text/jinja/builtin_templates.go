package jinja

import (
	"slices"
	"sync"
)

// builtinSources are the prompt formats in common use, for models that come
// without a template. Each is written for plain system, user and assistant turns.
var builtinSources = map[string]string{
	"chatml": `{%- for m in messages -%}
{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{% endif -%}`,

	// The system text goes into the first user turn, between markers.
	"llama2": `{%- set ns = namespace(system='') -%}
{%- for m in messages -%}
{%- if m.role == 'system' -%}
{%- set ns.system = '<<SYS>>\n' + m.content + '\n<</SYS>>\n\n' -%}
{%- elif m.role == 'user' -%}
{{- bos_token + '[INST] ' + ns.system + m.content + ' [/INST]' -}}
{%- set ns.system = '' -%}
{%- else -%}
{{- ' ' + m.content + ' ' + eos_token -}}
{%- endif -%}
{%- endfor -%}`,

	"llama3": `{{- bos_token -}}
{%- for m in messages -%}
{{- '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + m.content | trim + '<|eot_id|>' -}}
{%- endfor -%}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif -%}`,

	// Gemma knows no system role: the text opens the first user turn.
	"gemma": `{{- bos_token -}}
{%- set ns = namespace(system='') -%}
{%- for m in messages -%}
{%- if m.role == 'system' -%}
{%- set ns.system = m.content + '\n\n' -%}
{%- else -%}
{{- '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' -}}
{{- ns.system + m.content | trim + '<end_of_turn>\n' -}}
{%- set ns.system = '' -%}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}{{- '<start_of_turn>model\n' }}{% endif -%}`,

	"phi3": `{%- for m in messages -%}
{{- '<|' + m.role + '|>\n' + m.content + '<|end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt %}{{- '<|assistant|>\n' }}{% endif -%}`,

	"zephyr": `{%- for m in messages -%}
{{- '<|' + m.role + '|>\n' + m.content + eos_token + '\n' -}}
{%- endfor -%}
{%- if add_generation_prompt %}{{- '<|assistant|>\n' }}{% endif -%}`,

	"mistral": `{{- bos_token -}}
{%- set ns = namespace(system='') -%}
{%- for m in messages -%}
{%- if m.role == 'system' -%}
{%- set ns.system = m.content + '\n\n' -%}
{%- elif m.role == 'user' -%}
{{- '[INST] ' + ns.system + m.content + ' [/INST]' -}}
{%- set ns.system = '' -%}
{%- else -%}
{{- ' ' + m.content + eos_token -}}
{%- endif -%}
{%- endfor -%}`,
}

// builtinMarkers tells formats by the special tokens they need, surest first.
var builtinMarkers = []struct {
	name   string
	tokens []string
}{
	{"chatml", []string{"<|im_start|>", "<|im_end|>"}},
	{"llama3", []string{"<|start_header_id|>", "<|eot_id|>"}},
	{"gemma", []string{"<start_of_turn>", "<end_of_turn>"}},
	{"phi3", []string{"<|user|>", "<|assistant|>", "<|end|>"}},
	{"zephyr", []string{"<|user|>", "<|assistant|>"}},
	{"mistral", []string{"[INST]", "[/INST]"}},
}

// builtins holds the parsed formats; a test proves that all of them parse.
var builtins = sync.OnceValue(func() map[string]*Template {
	parsed := make(map[string]*Template, len(builtinSources))
	for name, source := range builtinSources {
		if t, err := Parse(source); err == nil {
			parsed[name] = t
		}
	}
	return parsed
})

// Builtin returns a built-in format by name (chatml, gemma, llama2, llama3, mistral,
// phi3, zephyr), and whether there is one.
func Builtin(name string) (*Template, bool) {
	t, ok := builtins()[name]
	return t, ok
}

// Default returns the format for models that tell nothing about theirs: ChatML.
func Default() *Template { return builtins()["chatml"] }

// ForTokens returns the format that fits a vocabulary, and its name; has tells
// whether a special token exists. Without a known one it returns ChatML.
func ForTokens(has func(token string) bool) (*Template, string) {
	for _, mark := range builtinMarkers {
		if !slices.ContainsFunc(mark.tokens, func(token string) bool { return !has(token) }) {
			return builtins()[mark.name], mark.name
		}
	}
	return Default(), "chatml"
}
