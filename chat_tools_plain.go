package llmrun

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A chat template without tools gets them as text: the message of the system lists them and shows how a call is written, and the results of
// calls are messages of the user.

// toolsInText returns a conversation that lists the tools in its first message.
func (c *chatFormat) toolsInText(messages []Message, tools []Tool) ([]Message, error) {
	text, err := c.toolText(tools)
	if err != nil {
		return nil, err
	}
	role, at := "system", 0
	if !c.probeTools().system {
		role, at = "user", slices.IndexFunc(messages, func(m Message) bool { return m.Role == "user" })
	}
	if at < 0 || len(messages) == 0 || messages[at].Role != role {
		return slices.Concat([]Message{{Role: role, Content: text}}, messages), nil
	}
	messages = slices.Clone(messages)
	if m := &messages[at]; role == "user" { // the question comes last
		m.Content = text + "\n\n" + m.Content
	} else {
		m.Content = strings.TrimLeft(m.Content+"\n\n"+text, "\n")
	}
	return messages, nil
}

// toolText describes tools and how they are called.
func (c *chatFormat) toolText(tools []Tool) (string, error) {
	var list bytes.Buffer
	e := json.NewEncoder(&list)
	e.SetEscapeHTML(false)
	for i := range tools {
		t := tools[i]
		if len(t.Parameters) == 0 {
			t.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		if err := e.Encode(t); err != nil {
			return "", fmt.Errorf("%w: the parameters of the tool %s: %w", ErrOptions, t.Name, err)
		}
	}
	return "You can call tools. Each line describes one, with the JSON schema of its arguments:\n" + list.String() +
		"\nTo call a tool, answer with its name and its arguments in this form:\n" +
		c.callFormat().Write([][2]string{{"NAME", `{"ARGUMENT": "VALUE"}`}}) +
		"\nThe next message then has the result. Answer without a call if you need no tool.", nil
}

// resultsInText returns a conversation whose results of tools are messages of the user. Results in a row, and what the user says behind
// them, are one message, because templates expect that roles alternate.
func resultsInText(messages []Message) (all []Message) {
	const open, end = "<tool_response>\n", "\n</tool_response>"
	after := false // a result
	for _, m := range messages {
		result := m.Role == "tool"
		if result {
			m = Message{Role: "user", Content: open + m.Content + end}
		}
		if after && m.Role == "user" {
			all[len(all)-1].Content += "\n" + m.Content
			continue
		}
		after = result
		all = append(all, m)
	}
	return all
}
