package serve

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/llmrun/llmrun"
)

// OpenAI's and ollama's messages and tools differ in a few fields; each dialect takes those of both, as clients mix them.

// readTools reads the tools of a request.
func readTools(o *object) (tools []llmrun.Tool) {
	for _, t := range o.list("tools") {
		if kind := t.text("type"); kind != "" && kind != "function" {
			t.fail("type", "must be function")
		}
		tools = append(tools, readTool(t.inner("function"), "parameters"))
	}
	return tools
}

// readTool reads the description of a tool, which has the schema of its arguments in a field.
func readTool(f *object, schema string) llmrun.Tool {
	tool := llmrun.Tool{Name: f.text("name"), Description: f.text("description"), Strict: f.boolean("strict", false)}
	if tool.Name == "" {
		f.fail("name", "must be the name of the tool")
	}
	if f.has(schema) {
		f.inner(schema) // an object
		tool.Parameters = f.raw(schema)
	}
	return tool
}

// requireTool makes the answer the call of a tool, which an object names.
func requireTool(f *object, chat *llmrun.ChatOptions) {
	chat.ToolChoice, chat.ToolName = llmrun.ToolsRequired, f.text("name")
	if !slices.ContainsFunc(chat.Tools, func(t llmrun.Tool) bool { return t.Name == chat.ToolName }) {
		f.fail("name", "must be one of the tools")
	}
}

// A propertiesOf returns the object with the properties of a tool, or of a choice, whose type is kind.
type propertiesOf func(o *object, kind string) *object

// In chat completions the properties are in a field that is named like the type; in responses they are beside the type.
func nestedProperties(o *object, kind string) *object { return o.inner(kind) }
func flatProperties(o *object, _ string) *object      { return o }

// allowTools offers only those of the tools that an object lists.
func allowTools(f *object, of propertiesOf, chat *llmrun.ChatOptions) {
	if chat.ToolChoice = f.text("mode"); chat.ToolChoice != llmrun.ToolsAuto && chat.ToolChoice != llmrun.ToolsRequired {
		f.fail("mode", "must be auto or required")
	}
	allowed := map[string]bool{}
	for _, tool := range f.list("tools") {
		named := of(tool, "function")
		if name := named.text("name"); slices.ContainsFunc(chat.Tools, func(t llmrun.Tool) bool { return t.Name == name }) {
			allowed[name] = true
		} else {
			named.fail("name", "must be one of the tools")
		}
	}
	chat.Tools = slices.DeleteFunc(slices.Clone(chat.Tools), func(t llmrun.Tool) bool { return !allowed[t.Name] })
}

// readToolChoice reads whether the answer must be a call.
func readToolChoice(o *object, of propertiesOf, chat *llmrun.ChatOptions) {
	const name = "tool_choice"
	if !o.has(name) {
		return
	}
	if o.kind(name) == isText {
		if chat.ToolChoice = o.text(name); !slices.Contains([]string{llmrun.ToolsAuto, llmrun.ToolsNone, llmrun.ToolsRequired}, chat.ToolChoice) {
			o.fail(name, "must be auto, none, required, or an object with the name of a tool")
		}
	} else {
		switch choice := o.inner(name); choice.text("type") {
		case "function":
			requireTool(of(choice, "function"), chat)
		case "allowed_tools":
			allowTools(of(choice, "allowed_tools"), of, chat)
		default:
			choice.fail("type", "must be function or allowed_tools")
		}
	}
	if chat.ToolChoice == llmrun.ToolsRequired && len(chat.Tools) == 0 {
		o.fail(name, "needs tools")
	}
}

// readMessage reads what a message has besides its role and content.
func readMessage(m *object, message *llmrun.Message) {
	switch message.Role {
	case "assistant":
		for _, name := range []string{"reasoning_content", "reasoning", "thinking"} {
			if text := m.text(name); text != "" {
				message.Thinking = text
			}
		}
		message.ToolCalls = readToolCalls(m)
	case "tool":
		message.ToolCallID, message.Name = m.text("tool_call_id"), m.text("tool_name")
		if message.Name == "" {
			message.Name = m.text("name")
		}
	default:
		m.refuse("tool_calls", "can only be an assistant's")
	}
}

// readToolCalls reads the calls of an assistant's message. Arguments are an object, or its JSON as a string.
func readToolCalls(m *object) (calls []llmrun.ToolCall) {
	for _, c := range m.list("tool_calls") {
		f := c.inner("function")
		call := llmrun.ToolCall{ID: c.text("id"), Name: f.text("name"), Arguments: "{}"}
		if call.Name == "" {
			f.fail("name", "must be the name of the tool")
		}
		const name = "arguments"
		if f.has(name) {
			call.Arguments = string(f.raw(name))
			if f.kind(name) == isText {
				call.Arguments = f.text(name)
			}
		}
		if strings.TrimSpace(call.Arguments) == "" {
			call.Arguments = "{}"
		}
		if !call.Complete() {
			f.fail(name, "must be a JSON object")
		}
		calls = append(calls, call)
	}
	return calls
}

// linkResults gives results of tools the names and ids that they lack: of the call with their id, or of the next one that has no result.
func linkResults(messages []llmrun.Message) {
	var open []llmrun.ToolCall
	for i := range messages {
		m := &messages[i]
		switch m.Role {
		case "assistant":
			open = slices.Clone(m.ToolCalls)
		case "tool":
			at := slices.IndexFunc(open, func(c llmrun.ToolCall) bool {
				if m.ToolCallID != "" {
					return c.ID == m.ToolCallID
				}
				return m.Name == "" || c.Name == m.Name
			})
			if at < 0 {
				continue
			}
			if m.Name == "" {
				m.Name = open[at].Name
			}
			if m.ToolCallID == "" {
				m.ToolCallID = open[at].ID
			}
			open = slices.Delete(open, at, at+1)
		}
	}
}

// prepare checks what only the open model knows about a request, and completes the options of its prompt. thinking is the level that the
// request wants.
func (u *use) prepare(chat *llmrun.ChatOptions, thinking string, bias map[int32]float32) error {
	if err := checkBias(bias, u.engine.Info().Vocab); err != nil {
		return err
	}
	chat.Thinking = thinkingLevel(u.engine, thinking)
	return nil
}

// thinkingLevel returns the level of thinking that a model has for what a request wants, "" if it has no such switch.
func thinkingLevel(engine *llmrun.Engine, want string) string {
	levels := engine.ThinkingLevels()
	switch {
	case want == "" || slices.Contains(levels, want):
		return want
	case want != llmrun.ThinkOff && slices.Contains(levels, llmrun.ThinkOn):
		return llmrun.ThinkOn
	}
	return ""
}

// rawArguments returns the arguments of a call as JSON; an empty object if they are not complete.
func rawArguments(c *llmrun.ToolCall) json.RawMessage {
	if !c.Complete() {
		return json.RawMessage("{}")
	}
	return json.RawMessage(c.Arguments)
}
