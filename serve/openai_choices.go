package serve

import (
	"context"
	"encoding/json"
	"net/http"
)

// openAIAnswer is an answer with choices of type C, or a part of one.
type openAIAnswer[C any] struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Choices []C    `json:"choices"`
	// Usage is the usage, noUsage, or nil.
	Usage any `json:"usage,omitempty"`
}

// noUsage is the usage of the parts of a stream before its last one, if the request wants usage.
var noUsage = json.RawMessage("null")

// openAIChoices is the answer to a request while it is generated.
type openAIChoices[C any] struct {
	head   openAIAnswer[C] // what all parts have in common
	usage  openAIUsage
	stream *stream // nil without one
}

// run generates choices with an index below n one after the other by calls of choice, which calls send. Errors before the first part of a
// stream are answered by a status.
func (a *openAIChoices[C]) run(ctx context.Context, w http.ResponseWriter, r *openAIRequest, n int, choice func(index int) error) error {
	if r.stream {
		a.stream = newStream(w, true)
		if r.includeUsage {
			a.head.Usage = noUsage
		}
	}
	for i := range n {
		if err := choice(i); err != nil {
			return r.server.breakOff(ctx, a.stream, err, openAI{}.errorBody)
		}
	}
	if a.stream == nil {
		a.head.Usage = &a.usage
		writeJSON(w, http.StatusOK, a.head)
		return nil
	}
	if r.includeUsage {
		a.head.Choices, a.head.Usage = []C{}, &a.usage
		_ = a.stream.send(a.head) // fails if the client has left
	}
	_ = a.stream.end() // fails if the client has left
	return nil
}

// send sends a part of a choice, or adds a choice to an answer that is no stream.
func (a *openAIChoices[C]) send(c C) error {
	if a.stream == nil {
		a.head.Choices = append(a.head.Choices, c)
		return nil
	}
	part := a.head
	part.Choices = []C{c}
	return a.stream.send(part)
}
