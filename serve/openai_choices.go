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
}

// generator generates the jth choice of a prompt, and calls begun with its first token.
type generator[C any] func(prompt, j int, begun func()) (generated[C], error)

// run generates the choices of some prompts. Those of a prompt are generated together, so many that the n likeliest are the
// answer, or one after the other for a stream, to which the generator sends their parts. Errors before the first part of a stream are
// answered by a status.
func (a *openAIChoices[C]) run(ctx context.Context, w http.ResponseWriter, r *openAIRequest, prompts, each int, choice generator[C]) error {
	if r.stream {
		a.stream = newStream(w, true)
		if r.includeUsage {
			a.head.Usage = noUsage
		}
	}
	for i := range prompts {
		var err error
		if a.stream != nil {
			err = a.inTurn(i, r.n, choice)
		} else {
			err = a.together(i, r.n, each, choice)
		}
		if err != nil {
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

// inTurn generates the choices of a prompt one after the other.
func (a *openAIChoices[C]) inTurn(prompt, n int, choice generator[C]) error {
	for j := range n {
		g, err := choice(prompt, j, func() {})
		if err != nil {
			return err
		}
		a.usage.add(&g.spent, j == 0)
		if err := a.send(g.choice.at(prompt*n + j)); err != nil {
			return err
		}
	}
	return nil
}

// together generates so many choices of a prompt at the same time, and adds the n likeliest to the answer.
func (a *openAIChoices[C]) together(prompt, n, each int, choice generator[C]) error {
	all := make([]generated[C], each)
	err := together(each, func(j int, begun func()) (err error) {
		all[j], err = choice(prompt, j, begun)
		return err
	})
	if err != nil {
		return err
	}
	for j := range all {
		a.usage.add(&all[j].spent, j == 0)
	}
	if each > n {
		slices.SortStableFunc(all, func(x, y generated[C]) int { return cmp.Compare(y.drawn.MeanLogProb(), x.drawn.MeanLogProb()) })
	}
	for j := range n {
		_ = a.send(all[j].choice.at(prompt*n + j)) // there is no stream
	}
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
