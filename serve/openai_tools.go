package serve

import "github.com/llmrun/llmrun"

// chatToolCall is a call in an answer, or more of its arguments.
type chatToolCall struct {
	Index    *int         `json:"index,omitempty"` // of parts of an answer
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// chatToolCalls returns the calls of an answer.
func chatToolCalls(a *llmrun.Answer) (calls []chatToolCall) {
	for _, c := range a.ToolCalls() {
		calls = append(calls, chatToolCall{ID: c.ID, Type: "function", Function: chatFunction{c.Name, c.Arguments}})
	}
	return calls
}

// message returns an answer as a message, whose content is null if it consists of calls.
func message(a *llmrun.Answer) *chatMessage {
	m := &chatMessage{Role: "assistant", Reasoning: a.Thinking(), ToolCalls: chatToolCalls(a)}
	if text := a.Text(); text != "" || len(m.ToolCalls) == 0 {
		m.Content = &text
	}
	return m
}

// delta returns a piece as a part of a message. a holds the answer up to the piece.
func delta(p *llmrun.Piece, a *llmrun.Answer) *chatDelta {
	switch p.Kind {
	case llmrun.KindThinking:
		return &chatDelta{Reasoning: p.Text}
	case llmrun.KindToolCall:
		at := len(a.ToolCalls()) - 1
		if at < 0 || p.Call == nil && p.Text == "" {
			return &chatDelta{}
		}
		part := chatToolCall{Index: &at, Function: chatFunction{Arguments: p.Text}}
		if p.Call != nil {
			part.ID, part.Type, part.Function.Name = p.Call.ID, "function", p.Call.Name
		}
		return &chatDelta{ToolCalls: []chatToolCall{part}}
	}
	return &chatDelta{Content: &p.Text}
}

// chatFinishReason names why an answer ended.
func chatFinishReason(s *spent, a *llmrun.Answer) *string {
	reason := finishReason(s)
	if len(a.ToolCalls()) > 0 && *reason == "stop" {
		*reason = "tool_calls"
	}
	return reason
}

// readEffort returns the level of thinking that the effort in a field asks for.
func readEffort(o *object, field string) string {
	switch effort := o.text(field); effort {
	case "":
		return ""
	case "none":
		return llmrun.ThinkOff
	case "minimal", "low":
		return llmrun.ThinkLow
	case "medium":
		return llmrun.ThinkMedium
	case "high", "xhigh":
		return llmrun.ThinkHigh
	default:
		o.fail(field, "must be none, minimal, low, medium, high or xhigh")
		return ""
	}
}

// empty reports whether a part has nothing for its client.
func (d *chatDelta) empty() bool {
	return (d.Content == nil || *d.Content == "") && d.Reasoning == "" && len(d.ToolCalls) == 0
}
