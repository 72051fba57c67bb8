package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/llmrun/llmrun"
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

// numbered is a choice, of which at returns a copy with an index.
type numbered[C any] interface{ at(index int) C }

// generated is a choice, and what it took.
type generated[C any] struct {
	choice C // of a stream, its last part
	spent  spent
	drawn  llmrun.Candidate // its tokens
}

// add adds the token of a piece.
func (g *generated[C]) add(p *llmrun.Piece) {
	if p.ID >= 0 {
		g.drawn.LogProbs = append(g.drawn.LogProbs, p.LogProb)
	}
}

// openAIChoices is the answer to a request while it is generated.
type openAIChoices[C numbered[C]] struct {
	head   openAIAnswer[C] // what all parts have in common
	usage  openAIUsage
	stream *stream // nil without one
	parts  []parts // of a stream, for each choice; its goroutine owns them
}

// parts counts the parts of a choice: those that the client has, and those of the running attempt. A choice that is generated again
// repeats its parts, which the client does not get twice.
type parts struct{ sent, repeated int }

// generator generates the jth choice of a prompt, and calls begun with its first token.
type generator[C any] func(prompt, j int, begun func()) (generated[C], error)

// run generates the choices of some prompts. Those of a prompt are generated together, so many that the n likeliest are the
// answer. The generator sends the parts of a stream, which come in the order of their tokens. Errors before the first part of a stream are
// answered by a status.
func (a *openAIChoices[C]) run(ctx context.Context, w http.ResponseWriter, r *openAIRequest, prompts, each int, choice generator[C]) error {
	if r.stream {
		a.stream, a.parts = newStream(w, true), make([]parts, prompts*r.n)
		if r.includeUsage {
			a.head.Usage = noUsage
		}
	}
	for i := range prompts {
		if err := a.together(i, r.n, each, choice); err != nil {
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

// together generates so many choices of a prompt at the same time, and adds the n likeliest to the answer, unless they are streamed.
func (a *openAIChoices[C]) together(prompt, n, each int, choice generator[C]) error {
	all := make([]generated[C], each)
	err := together(each, func(j int, begun func()) (err error) {
		if a.stream != nil {
			a.parts[prompt*n+j].repeated = 0
		}
		if all[j], err = choice(prompt, j, begun); err == nil && a.stream != nil {
			err = a.send(prompt*n+j, all[j].choice)
		}
		return err
	})
	if err != nil {
		return err
	}
	for j := range all {
		a.usage.add(&all[j].spent, j == 0)
	}
	if a.stream != nil {
		return nil
	}
	if each > n {
		slices.SortStableFunc(all, func(x, y generated[C]) int { return cmp.Compare(y.drawn.MeanLogProb(), x.drawn.MeanLogProb()) })
	}
	for j := range n {
		a.head.Choices = append(a.head.Choices, all[j].choice.at(prompt*n+j))
	}
	return nil
}

// send sends a part of the choice with an index.
func (a *openAIChoices[C]) send(index int, c C) error {
	if p := &a.parts[index]; p.repeated < p.sent {
		p.repeated++
		return nil
	}
	a.parts[index] = parts{a.parts[index].sent + 1, a.parts[index].sent + 1}
	part := a.head
	part.Choices = []C{c.at(index)}
	return a.stream.send(part)
}
