package answer

import (
	"slices"
	"strings"
)

// Format is how the answers of a model mark thoughts and calls.
type Format struct {
	thoughts []pair
	answers  []pair // may enclose the answer
	calls    []wrapper
	ignored  []string
	bare     bool // an answer may begin with a call that has no mark
}

// pair is a mark at the beginning and one at the end.
type pair struct{ open, end string }

// wrapper is what encloses calls.
type wrapper struct {
	pair
	item pair // may enclose each call
	keep bool // the mark is part of the call
	bare bool // there is no mark, so only tools that exist can be called
}

var knownThoughts = []pair{
	{"<think>", "</think>"},
	{"[THINK]", "[/THINK]"},
	{"<seed:think>", "</seed:think>"},
	{"<|START_THINKING|>", "<|END_THINKING|>"},
	{"<|channel>thought", "<channel|>"},
	{"<|inner_prefix|>", "<|inner_suffix|>"},
	{"<reasoning>", "</reasoning>"},
	{"◁think▷", "◁/think▷"},
	{"Here is my thought process:", "Here is my response:"},
}

// functionaryText begins an answer that is text, where another name begins a call.
const functionaryText = functionaryCall + "all\n"

const functionaryCall = ">>>"

var knownAnswers = []pair{
	{"<response>", "</response>"},
	{"<answer>", "</answer>"},
	{"<|START_RESPONSE|>", "<|END_RESPONSE|>"},
	{"<|START_TEXT|>", "<|END_TEXT|>"},
}

var knownCalls = []wrapper{
	{pair: pair{"<tool_call>", "</tool_call>"}},
	{pair: pair{"<tool_calls>", "</tool_calls>"}, item: pair{"<tool_call>", "</tool_call>"}},
	{pair: pair{"<seed:tool_call>", "</seed:tool_call>"}},
	{pair: pair{"<minimax:tool_call>", "</minimax:tool_call>"}},
	{pair: pair{"<｜DSML｜function_calls>", "</｜DSML｜function_calls>"}},
	{pair: pair{"<function_calls>", "</function_calls>"}},
	{pair: pair{"<TOOLCALL>", "</TOOLCALL>"}},
	{pair: pair{"<|tool_call|>", "<|/tool_call|>"}},
	{pair: pair{"<|tool_call>", "<tool_call|>"}},
	{pair: pair{"<start_function_call>", "<end_function_call>"}},
	{pair: pair{"<|tool_call_start|>", "<|tool_call_end|>"}},
	{pair: pair{"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"}, item: pair{"<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"}},
	{pair: pair{"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"}, item: pair{"<|tool_call_begin|>", "<|tool_call_end|>"}},
	{pair: pair{"<|START_ACTION|>", "<|END_ACTION|>"}},
	{pair: pair{"<|tools_prefix|>", "<|tools_suffix|>"}},
	{pair: pair{"<|action_start|>", "<|action_end|>"}, item: pair{open: "<|plugin|>"}},
	{pair: pair{"<|python_start|>", "<|python_end|>"}},
	{pair: pair{open: "<|python_tag|>"}},
	{pair: pair{open: "[TOOL_CALLS]"}},
	{pair: pair{"```tool_code", "```"}},
	{pair: pair{"```tool_call", "```"}},
	{pair: pair{"```function_call", "```"}},
	{pair: pair{open: functionaryCall}},
	{pair: pair{open: "functools"}},
	{pair: pair{open: "Action:"}},
	{pair: pair{open: "<function="}, keep: true},
}

// bareCalls begin calls without a mark.
var bareCalls = []wrapper{{pair: pair{open: "{"}, keep: true, bare: true}, {pair: pair{open: "["}, keep: true, bare: true}}

// knownIgnored are marks that end a part without being part of it.
var knownIgnored = []string{"<|tool_response>", "<|eom_id|>"}

// callMark returns the text of a template by which a wrapper is known.
func (w *wrapper) callMark(template string) bool {
	switch w.open {
	case "Action:":
		return strings.Contains(template, "Action:") && strings.Contains(template, "tool_name")
	case functionaryCall:
		return strings.Contains(template, functionaryCall+"all")
	case "functools":
		return strings.Contains(template, "functools[")
	case "<|tool_call_start|>": // LFM2 writes calls into the content, and its template only lists tools
		return strings.Contains(template, w.open) || strings.Contains(template, "<|tool_list_start|>")
	}
	return strings.Contains(template, w.open)
}

// New returns the format of a model that has a chat template. A template that shows no calls leaves them to the model: then the marks are
// those that are tokens of its vocabulary. isToken may be nil.
func New(template string, isToken func(mark string) bool) *Format {
	f := &Format{}
	for _, t := range knownThoughts {
		if strings.Contains(template, t.open) || strings.Contains(template, t.end) {
			f.thoughts = append(f.thoughts, t)
		}
	}
	if len(f.thoughts) > 0 {
		for _, a := range knownAnswers {
			if strings.Contains(template, a.open) {
				f.answers = append(f.answers, a)
			}
		}
	}
	for i := range knownCalls {
		if knownCalls[i].callMark(template) {
			f.calls = append(f.calls, knownCalls[i])
			if knownCalls[i].open == functionaryCall {
				f.answers = append(f.answers, pair{open: functionaryText})
			}
		}
	}
	if len(f.calls) == 0 && isToken != nil {
		for i := range knownCalls {
			if isToken(knownCalls[i].open) {
				f.calls = append(f.calls, knownCalls[i])
			}
		}
	}
	f.bare = len(f.calls) == 0 || slices.ContainsFunc(f.calls, func(w wrapper) bool { return w.open == "<|python_tag|>" })
	if f.bare {
		f.calls = append(f.calls, bareCalls...)
	}
	for _, mark := range knownIgnored {
		if strings.Contains(template, mark) {
			f.ignored = append(f.ignored, mark)
		}
	}
	return f
}

// WithCalls returns the format of a model that is told how to call tools: its own if it has marks for calls, otherwise one with marks that
// many models know. A call without marks is read all the same.
func (f *Format) WithCalls() *Format {
	if slices.ContainsFunc(f.calls, func(w wrapper) bool { return !w.bare }) {
		return f
	}
	g := *f
	g.calls = append(slices.Clone(knownCalls[:1]), f.calls...)
	return &g
}

// Thinks reports whether the answers of the model may have thoughts.
func (f *Format) Thinks() bool { return len(f.thoughts) > 0 }

// Opened returns the mark that ends the thoughts which a prompt begins, "" if it begins none.
func (f *Format) Opened(prompt string) (end string) {
	prompt = strings.TrimRight(prompt, space)
	prompt = strings.TrimSuffix(prompt, "<seed:cot_budget_reflect>") // what Seed thinks about a budget of thoughts
	for _, t := range f.thoughts {
		if strings.HasSuffix(prompt, t.open) {
			return t.end
		}
	}
	return ""
}

// Closed reports whether a prompt ends with thoughts that it has ended itself.
func (f *Format) Closed(prompt string) bool {
	prompt = strings.TrimRight(prompt, space)
	return slices.ContainsFunc(f.thoughts, func(t pair) bool { return strings.HasSuffix(prompt, t.end) })
}

// Begun returns what a prompt has begun of the answer: a mark behind which the model writes whether it answers or calls a tool.
func (f *Format) Begun(prompt string) string {
	for _, a := range f.answers {
		if a.open == functionaryText && strings.HasSuffix(prompt, functionaryCall) {
			return functionaryCall
		}
	}
	return ""
}

// Thoughts returns the marks of thoughts that the model prefers, "" without thoughts.
func (f *Format) Thoughts() (open, end string) {
	if len(f.thoughts) == 0 {
		return "", ""
	}
	return f.thoughts[0].open, f.thoughts[0].end
}

// FirstCall returns where the first call begins in what a template has rendered, -1 if nowhere.
func (f *Format) FirstCall(text string) int {
	first := -1
	for i := range f.calls {
		w := &f.calls[i]
		if at := strings.Index(text, w.open); at >= 0 && !w.bare && (first < 0 || at < first) {
			first = at
		}
	}
	if first < 0 && f.bare {
		first = strings.IndexAny(text, "{[")
	}
	return first
}

// space is what separates marks.
const space = " \t\r\n"

// Write returns calls as the model writes them, for templates that do not. Each call has a name and the JSON of its arguments.
func (f *Format) Write(calls [][2]string) string {
	var w *wrapper
	for i := range f.calls {
		if !f.calls[i].bare && f.calls[i].open != "<|python_tag|>" {
			w = &f.calls[i]
			break
		}
	}
	var b strings.Builder
	switch {
	case w != nil && w.open == "<|tool_call_start|>":
		b.WriteString(w.open + "[")
		for i, c := range calls {
			if i > 0 {
				b.WriteString(", ")
			}
			writePython(&b, c[0], c[1])
		}
		b.WriteString("]" + w.end)
	default:
		open, end := "", ""
		if w != nil && !w.keep {
			open, end = w.open+"\n", "\n"+w.end
		}
		for i, c := range calls {
			if i > 0 {
				b.WriteString("\n")
			}
			b.WriteString(open + `{"name": ` + Quote(c[0]) + `, "arguments": ` + c[1] + "}" + end)
		}
	}
	return b.String()
}
