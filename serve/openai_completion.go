package serve

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/llmrun/llmrun"
)

// completionChoice is an answer of a text completion, or a piece of one.
type completionChoice struct {
	Text         string              `json:"text"`
	Index        int                 `json:"index"`
	LogProbs     *completionLogProbs `json:"logprobs"`
	FinishReason *string             `json:"finish_reason"`
}

// completionLogProbs has one element for each token.
type completionLogProbs struct {
	Tokens   []string             `json:"tokens"`
	LogProbs []float32            `json:"token_logprobs"`
	Top      []map[string]float32 `json:"top_logprobs"`
	Offsets  []int                `json:"text_offset"` // in characters of the answer
}

// completion is an answer, or a part of one.
type completion struct {
	ID      string             `json:"id"`
	Object  string             `json:"object"`
	Created int64              `json:"created"`
	Model   string             `json:"model"`
	Choices []completionChoice `json:"choices"`
	Usage   *openAIUsage       `json:"usage,omitempty"`
}

// completionRequest is a request for text completions.
type completionRequest struct {
	*openAIRequest
	prompts []prompt
	bestOf  int        // choices that are generated for each prompt; the n likeliest are the answer
	head    completion // what all parts of the answer have in common
	usage   openAIUsage
}

// completed is a choice, and what it took.
type completed struct {
	completionChoice
	drawn llmrun.Candidate // its tokens
	stats llmrun.Stats
}

// defaultCompletion is the number of tokens of a completion whose request does not say one, as the API has it.
const defaultCompletion = 16

func (s *Server) readCompletion(o *object) *job {
	r := &completionRequest{openAIRequest: s.readOpenAI(o), prompts: readPrompts(o)}
	if r.options.MaxTokens == 0 {
		r.options.MaxTokens = defaultCompletion
	}
	if top := o.whole("logprobs", 0, maxTopLogProbs); top != nil {
		r.logProbs, r.top = true, int(*top)
	}
	r.bestOf = r.n
	if best := o.whole("best_of", 1, maxChoices); best != nil {
		switch r.bestOf = int(*best); {
		case r.bestOf < r.n:
			o.fail("best_of", "must be at least n")
		case r.bestOf > r.n && r.stream:
			o.fail("best_of", "is not possible with stream: the likeliest answer is known when all are complete")
		}
	}
	o.refuse("echo", "is not supported")
	o.refuse("suffix", "is not supported yet")
	refuseFormat(o)
	return &job{model: r.model, run: r.run}
}

// readPrompts reads a text, token ids, or a list of either.
func readPrompts(o *object) []prompt {
	const name = "prompt"
	if !o.has(name) {
		o.fail(name, "is missing")
		return nil
	}
	raw := o.fields[name]
	if raw[0] == '"' {
		return []prompt{textPrompt(o.text(name))}
	}
	if ids, ok := tokenIDs(raw); ok {
		return []prompt{idsPrompt(ids)}
	}
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil || len(items) == 0 || len(items) > maxChoices {
		o.fail(name, "must be a text, a list of token ids, or a list of at most 16 of these")
		return nil
	}
	var all []prompt
	for _, item := range items {
		var text string
		if ids, ok := tokenIDs(item); ok {
			all = append(all, idsPrompt(ids))
		} else if json.Unmarshal(item, &text) == nil && item[0] == '"' {
			all = append(all, textPrompt(text))
		} else {
			o.fail(name, "must be a text, a list of token ids, or a list of at most 16 of these")
			return nil
		}
	}
	return all
}

// run generates the choices of the prompts, those of a prompt together unless they are streamed.
func (r *completionRequest) run(ctx context.Context, w http.ResponseWriter, u *use) error {
	if err := checkBias(r.sampling.bias, u.engine.Info().Vocab); err != nil {
		return err
	}
	r.head = completion{ID: "cmpl-" + r.server.id(), Object: "text_completion", Created: r.server.now().Unix(), Model: u.name}
	var t *stream
	if r.stream {
		t = newStream(w, true)
	}
	for i, p := range r.prompts {
		if err := r.choices(ctx, t, u, p, i*r.n); err != nil {
			return r.server.breakOff(ctx, t, err, openAI{}.errorBody)
		}
	}
	if t == nil {
		r.head.Usage = &r.usage
		writeJSON(w, http.StatusOK, r.head)
		return nil
	}
	if r.includeUsage {
		r.head.Choices, r.head.Usage = []completionChoice{}, &r.usage
		_ = t.send(r.head) // fails if the client has left
	}
	_ = t.end() // fails if the client has left
	return nil
}

// choices generates the choices of a prompt, the first of which has an index. Without a stream it adds them to the answer.
func (r *completionRequest) choices(ctx context.Context, t *stream, u *use, p prompt, first int) error {
	if t != nil {
		for j := range r.n {
			c, err := r.choice(ctx, t, u, p, first+j, j, func() {})
			if err != nil {
				return err
			}
			r.usage.add(c.stats, j == 0)
			if err := r.send(t, c.completionChoice); err != nil {
				return err
			}
		}
		return nil
	}
	all := make([]completed, r.bestOf)
	err := together(r.bestOf, func(j int, begun func()) (err error) {
		all[j], err = r.choice(ctx, nil, u, p, 0, j, begun)
		return err
	})
	if err != nil {
		return err
	}
	for j := range all {
		r.usage.add(all[j].stats, j == 0)
	}
	for j, c := range likeliest(all, r.n) {
		c.completionChoice.Index = first + j
		r.head.Choices = append(r.head.Choices, c.completionChoice)
	}
	return nil
}

// choice generates the choice with an index, the jth of its prompt, and calls begun with its first token. It sends the parts to a
// stream, or returns them.
func (r *completionRequest) choice(ctx context.Context, t *stream, u *use, p prompt, index, j int, begun func()) (whole completed, err error) {
	whole.completionChoice.Index = index
	var text strings.Builder
	offset := 0
	options := r.generateOptions(u, j)
	options.LogProbs = options.LogProbs || r.bestOf > r.n
	if t != nil {
		options.OnPrefill = t.reading
	}
	whole.stats, err = u.generate(ctx, p, options, func(piece *llmrun.Piece) error {
		begun()
		if piece.ID >= 0 {
			whole.drawn.LogProbs = append(whole.drawn.LogProbs, piece.LogProb)
		}
		part := completionChoice{Text: piece.Text, Index: index}
		if entry := r.logProb(u, piece); entry != nil {
			part.LogProbs = &completionLogProbs{}
			part.LogProbs.add(entry, offset)
			offset += utf8.RuneCountInString(entry.Token)
			if t == nil {
				if whole.completionChoice.LogProbs == nil {
					whole.completionChoice.LogProbs = &completionLogProbs{}
				}
				whole.completionChoice.LogProbs.join(part.LogProbs)
			}
		}
		if t == nil {
			text.WriteString(piece.Text)
			return nil
		}
		if part.Text == "" && part.LogProbs == nil {
			return nil
		}
		return r.send(t, part)
	})
	whole.completionChoice.Text, whole.FinishReason = text.String(), finishReason(whole.stats)
	return whole, err
}

// send sends a part of a choice.
func (r *completionRequest) send(t *stream, c completionChoice) error {
	chunk := r.head
	chunk.Choices = []completionChoice{c}
	return t.send(chunk)
}

// add adds a token whose text begins at an offset.
func (l *completionLogProbs) add(entry *chatLogProb, offset int) {
	top := map[string]float32{}
	for _, t := range entry.Top {
		if _, known := top[t.Token]; !known { // tokens that end within a character can have the same text
			top[t.Token] = t.LogProb
		}
	}
	l.join(&completionLogProbs{[]string{entry.Token}, []float32{entry.LogProb}, []map[string]float32{top}, []int{offset}})
}

// join adds the tokens of others.
func (l *completionLogProbs) join(others *completionLogProbs) {
	l.Tokens = append(l.Tokens, others.Tokens...)
	l.LogProbs = append(l.LogProbs, others.LogProbs...)
	l.Top = append(l.Top, others.Top...)
	l.Offsets = append(l.Offsets, others.Offsets...)
}
