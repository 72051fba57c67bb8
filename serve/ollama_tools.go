package serve

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/llmrun/llmrun"
)

// ollamaToolCall is a call in an answer. The API has no parts of calls.
type ollamaToolCall struct {
	ID       string         `json:"id,omitempty"`
	Function ollamaFunction `json:"function"`
}

type ollamaFunction struct {
	Index     int             `json:"index"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// ollamaToolCalls returns the calls of an answer from an index on that are complete.
func ollamaToolCalls(a *llmrun.Answer, from int) (calls []ollamaToolCall) {
	for i, c := range a.ToolCalls() {
		if i >= from && c.Complete() {
			calls = append(calls, ollamaToolCall{c.ID, ollamaFunction{i, c.Name, rawArguments(&c)}})
		}
	}
	return calls
}

// readThink reads whether the model shall think, or how much.
func readThink(o *object) string {
	if !o.has("think") {
		return ""
	}
	if o.kind("think") != isText {
		if o.boolean("think", false) {
			return llmrun.ThinkOn
		}
		return llmrun.ThinkOff
	}
	level := o.text("think")
	switch level {
	case llmrun.ThinkLow, llmrun.ThinkMedium, llmrun.ThinkHigh:
	default:
		o.fail("think", "must be true, false, low, medium or high")
	}
	return level
}

// checkThink returns the level of thinking for a request. A model that cannot think is not asked to: clients take the error as the sign
// to ask without.
func checkThink(u *use, want string) (string, error) {
	level := thinkingLevel(u.engine, want)
	if level == "" && want != "" && want != llmrun.ThinkOff {
		return "", &problem{status: http.StatusBadRequest, message: fmt.Sprintf("%q does not support thinking", u.name)}
	}
	return level, nil
}
