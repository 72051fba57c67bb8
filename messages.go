package llmrun

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/kv/segment"
)

// Message is one message of a conversation.
type Message struct {
	Role    string `json:"role"` // "system", "user", "assistant" or "tool"
	Content string `json:"content"`
	// Of an assistant: what it thought before it answered, and the tools that it calls.
	Thinking  string     `json:"thinking,omitempty"`
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
	// Of a tool, whose result is the content: the call that it answers, and the tool's name.
	ToolCallID string `json:"tool_call_id,omitempty"`
	Name       string `json:"name,omitempty"`
}

// ToolCall is a call of a tool that a model asks for.
type ToolCall struct {
	ID   string `json:"id,omitempty"`
	Name string `json:"name"`
	// Arguments is a JSON object, with the fields in the order of the answer. It is not complete if the answer was cut off.
	Arguments string `json:"arguments"`
}

// Complete reports whether the arguments are a JSON object.
func (c *ToolCall) Complete() bool {
	return strings.HasPrefix(strings.TrimLeft(c.Arguments, " \t\r\n"), "{") && json.Valid([]byte(c.Arguments))
}

// Tool is a tool that a model may call.
type Tool struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Parameters is the JSON schema of the arguments, an object; nil: there are none.
	Parameters json.RawMessage `json:"parameters,omitempty"`
	// Strict holds the arguments of calls to Parameters, whether the model decides upon a call or one is required. It is an error if that is
	// not possible; see ChatOptions.ToolChoice.
	Strict bool `json:"strict,omitempty"`
}

// Kind is what a piece of an answer belongs to.
type Kind uint8

// The kinds of pieces.
const (
	KindAnswer   Kind = iota // what the user reads
	KindThinking             // what the model thinks
	KindToolCall             // the arguments of a call
)

func (k Kind) String() string {
	return [...]string{"answer", "thinking", "tool call"}[k]
}

// Answer collects the pieces of a generation. The zero value is empty.
type Answer struct {
	text, thinking, arguments strings.Builder
	calls                     []ToolCall
}

// Add adds the next piece.
func (a *Answer) Add(p *Piece) {
	switch p.Kind {
	case KindAnswer:
		a.text.WriteString(p.Text)
	case KindThinking:
		a.thinking.WriteString(p.Text)
	case KindToolCall:
		if p.Call != nil {
			a.calls = append(a.calls, *p.Call)
			a.arguments.Reset()
		}
		if n := len(a.calls); n > 0 {
			a.arguments.WriteString(p.Text)
			a.calls[n-1].Arguments = a.arguments.String()
		}
	}
}

// Text returns what the user reads.
func (a *Answer) Text() string { return a.text.String() }

// Thinking returns what the model thought.
func (a *Answer) Thinking() string { return a.thinking.String() }

// ToolCalls returns the calls, of which the last may be incomplete. The caller must not modify the result.
func (a *Answer) ToolCalls() []ToolCall { return a.calls }

// Message returns the answer as a message of the conversation, with the calls that are complete.
func (a *Answer) Message() Message {
	m := Message{Role: "assistant", Content: a.Text(), Thinking: a.Thinking()}
	for i := range a.calls {
		if a.calls[i].Complete() {
			m.ToolCalls = append(m.ToolCalls, a.calls[i])
		}
	}
	return m
}

// The choices of tools.
const (
	ToolsAuto     = "auto"     // the model decides; also ""
	ToolsNone     = "none"     // the model knows no tools
	ToolsRequired = "required" // the answer is a call
)

// offers reports whether the prompt offers tools.
func (o *ChatOptions) offers() bool { return len(o.Tools) > 0 && o.ToolChoice != ToolsNone }

// requires reports whether the answer must be a call.
func (o *ChatOptions) requires() bool { return o.offers() && o.ToolChoice == ToolsRequired }

// strict reports whether one of the tools is strict that the model may call.
func (o *ChatOptions) strict() bool {
	return o.offers() && slices.ContainsFunc(o.Tools, func(t Tool) bool { return t.Strict })
}

// texts returns everything that a prompt may have of messages and options.
func (o *ChatOptions) texts(messages []Message) []string {
	texts := contents(messages)
	for i := range o.Tools {
		t := &o.Tools[i]
		texts = append(texts, t.Name, t.Description, string(t.Parameters))
	}
	return texts
}

// contents returns the texts of messages.
func contents(messages []Message) (texts []string) {
	for i := range messages {
		m := &messages[i]
		texts = append(texts, m.Content)
		if m.Thinking != "" {
			texts = append(texts, m.Thinking)
		}
		for j := range m.ToolCalls {
			texts = append(texts, m.ToolCalls[j].Arguments)
		}
	}
	return texts
}

// cloneMessages returns messages that the caller may change without changing those of a session.
func cloneMessages(messages []Message) []Message {
	all := slices.Clone(messages)
	for i := range all {
		all[i].ToolCalls = slices.Clone(all[i].ToolCalls)
	}
	return all
}

// messageDetails is what a saved message has besides its role and content.
type messageDetails struct {
	Thinking   string     `json:"thinking,omitempty"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
	Name       string     `json:"name,omitempty"`
}

// saveMessages puts messages into a manifest.
func saveMessages(to *segment.Manifest, messages []Message) {
	for i := range messages {
		m := &messages[i]
		to.Messages = append(to.Messages, segment.Message{Role: m.Role, Content: m.Content})
		if m.Thinking == "" && len(m.ToolCalls) == 0 && m.ToolCallID == "" && m.Name == "" {
			continue
		}
		if to.Details == nil {
			to.Details = make([]string, len(messages))
		}
		text, _ := json.Marshal(messageDetails{m.Thinking, m.ToolCalls, m.ToolCallID, m.Name}) // never fails
		to.Details[i] = string(text)
	}
}

// savedMessages returns the messages of a manifest.
func savedMessages(from *segment.Manifest) (messages []Message, err error) {
	for i, m := range from.Messages {
		var d messageDetails
		if from.Details != nil && from.Details[i] != "" {
			if err := json.Unmarshal([]byte(from.Details[i]), &d); err != nil {
				return nil, fmt.Errorf("%w: the details of message %d: %w; delete the session", ErrFormat, i, err)
			}
		}
		messages = append(messages, Message{m.Role, m.Content, d.Thinking, d.ToolCalls, d.ToolCallID, d.Name})
	}
	return messages, nil
}
