package jinja

import (
	"slices"
	"sync"
)

// builtinSources holds common prompt formats for models without a template. Each
// supports plain system, user and assistant messages.
var builtinSources = map[string]string{
	"chatml": `{%- for m in messages -%}
{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{% endif -%}`,

	// The system message becomes part of the first user message, between markers.
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

	// Gemma has no system role. The system message becomes the start of the first user
	// message.
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

// builtinMarkers lists the special tokens that identify each format, the most specific
// format first.
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

// builtins holds the parsed formats. TestBuiltins checks that all of them parse.
var builtins = sync.OnceValue(func() map[string]*Template {
	parsed := make(map[string]*Template, len(builtinSources))
	for name, source := range builtinSources {
		if t, err := Parse(source); err == nil {
			parsed[name] = t
		}
	}
	return parsed
})

// Builtin returns a built-in format by name: chatml, gemma, llama2, llama3, mistral,
// phi3 or zephyr. The result is false for other names.
func Builtin(name string) (*Template, bool) {
	t, ok := builtins()[name]
	return t, ok
}

// Default returns the format for models of unknown format: ChatML.
func Default() *Template { return builtins()["chatml"] }

// ForTokens returns the built-in format that matches a vocabulary, and its name. has
// reports whether the vocabulary has a special token. If no format matches, ForTokens
// returns ChatML.
func ForTokens(has func(token string) bool) (*Template, string) {
	for _, mark := range builtinMarkers {
		if !slices.ContainsFunc(mark.tokens, func(token string) bool { return !has(token) }) {
			return builtins()[mark.name], mark.name
		}
	}
	return Default(), "chatml"
}
