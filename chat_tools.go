package llmrun

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/llmrun/llmrun/text/answer"
	"github.com/llmrun/llmrun/text/channel"
	"github.com/llmrun/llmrun/text/constrain"
	"github.com/llmrun/llmrun/text/jinja"
)

// A template is known by what it renders, not by the name of its model: probes are short conversations, of which the first that
// needs one is rendered once.

// templateProbe is what probes found.
type templateProbe struct {
	tools    sync.Once
	offers   bool           // the template shows tools
	system   bool           // it shows a message of the system
	calls    bool           // it writes calls
	asText   bool           // it wants arguments as text
	noneText bool           // it wants none as the content of a message that has only calls
	single   bool           // it refuses two calls in a message
	format   *answer.Format // of answers with calls

	thinking sync.Once
	levels   map[string]thinkLevel
}

// These names stand for a conversation in probes.
const (
	probeTool = "probe_tool"
	probeCall = "probe_call"
	probeKey  = "probe_key"
	probeID   = "probe1234" // some templates want nine letters and digits

	probeArguments = `{"` + probeKey + `": "v"}`
)

// jsonObject returns an object with fields in their order.
func jsonObject(fields ...any) *jinja.Object {
	o := &jinja.Object{}
	for i := 0; i < len(fields); i += 2 {
		o.Set(fields[i].(string), fields[i+1])
	}
	return o
}

// jsonTool returns a tool as requests have it.
func jsonTool(t *Tool) (*jinja.Object, error) {
	var parameters any = jsonObject("type", "object", "properties", jsonObject())
	if len(t.Parameters) > 0 {
		var err error
		if parameters, err = jinja.DecodeJSON(t.Parameters); err != nil {
			return nil, fmt.Errorf("%w: the parameters of the tool %s: %w", ErrOptions, t.Name, err)
		}
		if _, isObject := parameters.(*jinja.Object); !isObject {
			return nil, fmt.Errorf("%w: the parameters of the tool %s must be an object, a JSON schema", ErrOptions, t.Name)
		}
	}
	return jsonObject("type", "function", "function", jsonObject("name", t.Name, "description", t.Description, "parameters", parameters)), nil
}

func jsonCall(id, name string, arguments any) *jinja.Object {
	return jsonObject("id", id, "type", "function", "function", jsonObject("name", name, "arguments", arguments))
}

// renderTools renders a template. One that iterates over tools fails if they are none: if there are no tools, it is rendered without the
// variable, and then with an empty list.
func renderTools(t *jinja.Template, in jinja.Input) (string, error) {
	text, err := t.Render(in)
	if in.Tools != nil || !errors.Is(err, jinja.ErrRuntime) {
		return text, err
	}
	in.OmitTools = true
	again, failed := t.Render(in)
	if failed != nil {
		in.OmitTools, in.Tools = false, []any{}
		again, failed = t.Render(in)
	}
	if failed != nil {
		return text, err
	}
	return again, nil
}

// probeTools finds how the template wants tools and calls.
func (c *chatFormat) probeTools() *templateProbe {
	p := &c.probed
	p.tools.Do(func() {
		user := jinja.Message{Role: "user", Content: "x"}
		tool := jsonObject("type", "function", "function", jsonObject("name", probeTool, "description", "y",
			"parameters", jsonObject("type", "object", "properties", jsonObject(probeKey, jsonObject("type", "string", "description", "z")))))
		render := func(messages ...any) string {
			text, _ := renderTools(c.template, jinja.Input{Messages: messages, Tools: []any{tool}, BOS: c.bos, EOS: c.eos})
			return text // of an error, ""
		}
		p.offers, p.format = strings.Contains(render(user), probeTool), c.answers
		if !p.offers {
			p.format = c.answers.WithCalls()
			p.system = strings.Contains(render(jinja.Message{Role: "system", Content: probeTool}, user), probeTool)
		}
		var object any = jsonObject(probeKey, "v")
		with := func(content, arguments any, n int) string {
			calls := slices.Repeat([]any{jsonCall(probeID, probeCall, arguments)}, n)
			answer := jsonObject("role", "assistant", "content", content, "tool_calls", calls)
			return render(user, answer, jsonObject("role", "tool", "tool_call_id", probeID, "name", probeCall, "content", "w"))
		}
		good := func(out string, asText bool) bool {
			if asText && !strings.Contains(out, probeArguments) {
				return false
			}
			return strings.Contains(out, probeCall) && strings.Contains(out, probeKey) && !strings.Contains(out, "{'"+probeKey)
		}
		for _, asText := range []bool{false, true} {
			arguments := object
			if asText {
				arguments = probeArguments
			}
			empty, none := with("", arguments, 1), with(nil, arguments, 1)
			emptyGood, noneGood := good(empty, asText), good(none, asText)
			if !emptyGood && !noneGood {
				continue
			}
			p.calls, p.asText = true, asText
			p.noneText = noneGood && (!emptyGood || strings.Count(none, "None") <= strings.Count(empty, "None"))
			var content any = ""
			if p.noneText {
				content = nil
			}
			p.single = strings.Count(with(content, arguments, 2), probeCall) <= strings.Count(with(content, arguments, 1), probeCall)
			return
		}
	})
	return p
}

// callFormat returns the format of answers with calls.
func (c *chatFormat) callFormat() *answer.Format { return c.probeTools().format }

// knowsResults reports whether the template has results of tools.
func (c *chatFormat) knowsResults() bool {
	return strings.Contains(c.source, "'tool'") || strings.Contains(c.source, `"tool"`) || c.probeTools().offers
}

// nineLetters is the condition of templates that accept only certain ids of calls.
var nineLetters = regexp.MustCompile(`length\s*!=\s*9`)

// callID returns an id that the template accepts.
func (c *chatFormat) callID(id string) string {
	if !nineLetters.MatchString(c.source) || len(id) == callIDLength {
		return id
	}
	return newCallID(id)
}

// messages returns messages as the template wants them.
func (c *chatFormat) messages(all []Message) (list []any, err error) {
	if slices.ContainsFunc(all, func(m Message) bool { return m.Role == "tool" }) && !c.knowsResults() {
		all = resultsInText(all)
	}
	for i := range all {
		m := &all[i]
		if m.Thinking == "" && len(m.ToolCalls) == 0 && m.ToolCallID == "" && m.Name == "" {
			list = append(list, jinja.Message{Role: m.Role, Content: m.Content})
			continue
		}
		if len(m.ToolCalls) == 0 || !c.probeTools().single {
			if list, err = c.appendMessage(list, m, m.ToolCalls); err != nil {
				return nil, err
			}
			continue
		}
		for j := range m.ToolCalls {
			one := *m
			if j > 0 {
				one.Content, one.Thinking = "", ""
			}
			if list, err = c.appendMessage(list, &one, m.ToolCalls[j:j+1]); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

func (c *chatFormat) appendMessage(list []any, m *Message, calls []ToolCall) ([]any, error) {
	o := jsonObject("role", m.Role, "content", m.Content)
	if m.ToolCallID != "" {
		o.Set("tool_call_id", c.callID(m.ToolCallID))
	}
	if m.Name != "" {
		o.Set("name", m.Name)
	}
	if len(calls) > 0 {
		p := c.probeTools()
		if !p.calls {
			text := c.callFormat().Write(namesAndArguments(calls))
			if m.Content != "" {
				text = m.Content + "\n" + text
			}
			o.Set("content", text)
		} else {
			if m.Content == "" && p.noneText {
				o.Set("content", nil)
			}
			var list []any
			for i := range calls {
				call := &calls[i]
				var arguments any = call.Arguments
				if !p.asText {
					var err error
					if arguments, err = jinja.DecodeJSON([]byte(call.Arguments)); err != nil {
						return nil, fmt.Errorf("%w: the arguments of the call of %s: %w", ErrOptions, call.Name, err)
					}
				}
				list = append(list, jsonCall(c.callID(call.ID), call.Name, arguments))
			}
			o.Set("tool_calls", list)
		}
	}
	c.addThinking(o, m, len(calls) > 0)
	return append(list, o), nil
}

func namesAndArguments(calls []ToolCall) (all [][2]string) {
	for i := range calls {
		all = append(all, [2]string{calls[i].Name, calls[i].Arguments})
	}
	return all
}

// addThinking adds what an assistant thought under the names by which the template knows it.
func (c *chatFormat) addThinking(o *jinja.Object, m *Message, calls bool) {
	if m.Thinking == "" {
		return
	}
	if strings.Contains(c.source, "reasoning_content") {
		o.Set("reasoning_content", m.Thinking)
	}
	if strings.Contains(c.source, ".thinking") || strings.Contains(c.source, "'thinking'") || strings.Contains(c.source, `"thinking"`) {
		o.Set("thinking", m.Thinking)
		if calls && m.Content != "" && strings.Contains(c.source, "both content and thinking") { // the template has one place for both
			o.Set("thinking", m.Thinking+"\n"+m.Content)
			o.Set("content", "")
		}
	}
}

// prompt returns the prompt as text, and behind it what begins the answer.
func (c *chatFormat) prompt(messages []Message, o ChatOptions, room *promptRoom) (text, begun string, err error) {
	if c.template == nil {
		return "", "", c.invalid
	}
	in := jinja.Input{BOS: c.bos, EOS: c.eos, AddGenerationPrompt: !o.NoGenerationPrompt, Now: o.Now, Extra: o.Extra}
	in.Granted, in.Reserve = room.granted()
	if o.offers() {
		if err := o.validateTools(); err != nil {
			return "", "", err
		}
		tools, err := jsonTools(o.Tools)
		if err != nil {
			return "", "", err
		}
		if c.probeTools().offers {
			in.Tools = tools
		} else if messages, err = c.toolsInText(messages, o.Tools); err != nil {
			return "", "", err
		}
	}
	if in.Messages, err = c.messages(messages); err != nil {
		return "", "", err
	}
	level, err := c.level(o.Thinking)
	if err != nil {
		return "", "", err
	}
	in.Extra = level.variables(o.Extra)
	if text, err = renderTools(c.template, in); err != nil || o.NoGenerationPrompt {
		return text, "", err
	}
	begun = level.begin(c.answers, text)
	switch {
	case !o.requires():
	case c.thinksFirst(&o, in, text+begun):
		begun += c.openThoughts(text + begun) // the call follows them: see callBehind
	default:
		call, err := c.requiredBegin(&o)
		if err != nil {
			return "", "", err
		}
		if c.channels != nil {
			begun = "" // a call has a channel of its own
		} else if end := c.answers.Opened(text + begun); end != "" {
			begun += "\n" + end + "\n\n"
		}
		begun += strings.TrimPrefix(call, c.callFormat().Begun(text))
	}
	return text, begun, nil
}

// requiredBegin returns what a required call begins with: up to its name, or up to the arguments if the tool is known.
func (c *chatFormat) requiredBegin(o *ChatOptions) (string, error) {
	begun, err := c.callBegin(o.requiredTool())
	switch {
	case o.held == nil:
	case c.channels != nil:
		begun = strings.TrimSuffix(begun, nameBegin)
	default:
		begun = strings.TrimSuffix(begun, "{") // it belongs to the arguments, which are held to their schema
	}
	return begun, err
}

// nameBegin is before the name of a tool in a header. Tokens of names begin with it, so a name that is held to those of the tools
// has it in its language, and not in the prompt.
const nameBegin = "."

// nameEnd is between the name of a tool in a header and the arguments.
const nameEnd = " " + channel.Constrain + "json" + channel.Message

// jsonTools returns tools as templates want them.
func jsonTools(tools []Tool) (list []any, err error) {
	for i := range tools {
		t, err := jsonTool(&tools[i])
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}

// maxTools bounds the tools of a prompt.
const maxTools = 1024

func (o *ChatOptions) validateTools() error {
	if !slices.Contains([]string{"", ToolsAuto, ToolsNone, ToolsRequired}, o.ToolChoice) {
		return fmt.Errorf("%w: ToolChoice is %q; it must be %s, %s or %s", ErrOptions, o.ToolChoice, ToolsAuto, ToolsNone, ToolsRequired)
	}
	if len(o.Tools) > maxTools {
		return fmt.Errorf("%w: %d tools; at most %d are allowed", ErrOptions, len(o.Tools), maxTools)
	}
	for i := range o.Tools {
		if o.Tools[i].Name == "" {
			return fmt.Errorf("%w: tool %d has no name", ErrOptions, i+1)
		}
	}
	if o.ToolName != "" && !slices.ContainsFunc(o.Tools, func(t Tool) bool { return t.Name == o.ToolName }) {
		return fmt.Errorf("%w: ToolName is %q, which is none of the tools", ErrOptions, o.ToolName)
	}
	return nil
}

// requiredTool returns the name of the tool that a required call is of, or "" if the model chooses one.
func (o *ChatOptions) requiredTool() string {
	if o.ToolName == "" && len(o.Tools) == 1 {
		return o.Tools[0].Name
	}
	return o.ToolName
}

// callBegin returns the beginning of a call, up to its name, or with a name up to its arguments.
func (c *chatFormat) callBegin(name string) (string, error) {
	if c.channels != nil {
		begun := "<|channel|>commentary to=functions" + nameBegin
		if name != "" {
			begun += name + nameEnd
		}
		return begun, nil
	}
	begun, rest, err := c.callText()
	if err != nil || name == "" {
		return begun, err
	}
	end := len(rest)
	for _, stop := range []string{"{", "<", probeKey} {
		if i := strings.Index(rest, stop); i >= 0 {
			end = min(end, i)
		}
	}
	if strings.HasPrefix(rest[end:], "{") { // arguments are an object
		end++
	}
	return begun + name + rest[:end], nil
}

// callText returns what the template writes for a call: up to the name, and behind it.
func (c *chatFormat) callText() (begun, rest string, err error) {
	p := c.probeTools()
	call := c.callFormat().Write([][2]string{{probeCall, probeArguments}})
	if p.calls {
		user := Message{Role: "user", Content: "x"}
		made := Message{Role: "assistant", ToolCalls: []ToolCall{{ID: probeID, Name: probeCall, Arguments: probeArguments}}}
		before, _, err := c.prompt([]Message{user}, ChatOptions{NoGenerationPrompt: true}, nil)
		if err != nil {
			return "", "", err
		}
		all, _, err := c.prompt([]Message{user, made}, ChatOptions{NoGenerationPrompt: true}, nil)
		if err != nil {
			return "", "", err
		}
		call = all
		if rest, ok := strings.CutPrefix(all, before); ok {
			call = rest
		}
	}
	from := c.callFormat().FirstCall(call)
	at := strings.Index(call, probeCall)
	if from < 0 || at < from {
		return "", "", fmt.Errorf("%w: a call of a tool cannot be required of this model: its chat template does not show how calls begin", ErrOptions)
	}
	return call[from:at], call[at+len(probeCall):], nil
}

// jsonCalls returns what the model writes before the name of a tool behind what requiredBegin has begun, between the name and the arguments,
// and what closes the call behind them; ok is false if it does not write arguments as JSON.
func (c *chatFormat) jsonCalls() (before, lead, tail string, ok bool) {
	if c.channels != nil {
		return nameBegin, strings.NewReplacer(channel.Constrain, constrain.Mark(channel.Constrain), channel.Message, constrain.Mark(channel.Message)).Replace(nameEnd), "", true
	}
	_, rest, err := c.callText()
	if err != nil {
		return "", "", "", false
	}
	for _, arguments := range []string{probeArguments, strings.ReplaceAll(probeArguments, " ", "")} {
		if lead, tail, ok = strings.Cut(rest, arguments); ok {
			return "", lead, tail[:len(tail)-len(strings.TrimLeft(tail, "}]"))], true
		}
	}
	return "", "", "", false
}

// reading is how the answer to a prompt is read.
type reading struct {
	format *answer.Format
	end    string // ends the thoughts that the prompt begins
	begun  string // of the answer, in the prompt
	tools  *answer.Tools
	seed   string // of the ids of calls
	one    bool   // the answer ends behind its first call

	required bool           // the answer is a call
	calls    *requiredCalls // what it is held to, if it writes arguments as JSON; nil otherwise
	decided  *requiredCalls // what the arguments of strict tools are held to that the model calls by itself; nil: nothing
	behind   *requiredCall  // what follows the thoughts that the prompt begins; nil: nothing certain
}

// reading returns how the answer to a prompt is read, of which begun belongs to the answer.
func (c *chatFormat) reading(text, begun string, o *ChatOptions) *reading {
	r := &reading{format: c.answers, begun: begun, one: o.OneToolCall && o.offers(), seed: fmt.Sprint(len(text))}
	if r.format == nil || c.channels != nil { // channels need no other marks
		r.format = answer.New("", nil)
	}
	if o.NoGenerationPrompt {
		r.format = answer.New("", nil)
		return r
	}
	r.end = r.format.Opened(text)
	if o.offers() && c.channels == nil {
		r.format = c.callFormat()
		r.tools = &answer.Tools{}
		for i := range o.Tools {
			name := stripMarks.Replace(o.Tools[i].Name)
			r.tools.Add(name, o.Tools[i].Parameters)
			if o.decided != nil && o.Tools[i].Strict {
				r.tools.Hold(name)
			}
		}
	}
	r.begun = r.format.Begun(text) + r.begun
	return r
}
