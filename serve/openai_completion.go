package serve

import (
	"context"
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

// completionRequest is a request for text completions.
type completionRequest struct {
	*openAIRequest
	prompts []prompt
	// before and behind are the texts around a gap that the answer fills; behind is "" if there is none.
	before, behind string
	bestOf         int // choices that are generated for each prompt; the n likeliest are the answer
	answer         openAIChoices[completionChoice]
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
	if r.behind = o.text("suffix"); r.behind != "" {
		r.before = o.text("prompt") // no list
	}
	return &job{model: r.model, format: readResponseFormat(o, &r.options), run: r.run}
}

// readPrompts reads a text, token ids, or a list of either.
func readPrompts(o *object) (all []prompt) {
	for _, t := range o.textsOrTokens("prompt", maxChoices) {
		if t.ids != nil {
			all = append(all, idsPrompt(t.ids))
		} else {
			all = append(all, textPrompt(t.text))
		}
	}
	return all
}

// run generates the choices of all prompts.
func (r *completionRequest) run(ctx context.Context, w http.ResponseWriter, u *use) error {
	if err := checkBias(r.sampling.bias, u.engine.Info().Vocab); err != nil {
		return err
	}
	if r.behind != "" {
		text, err := gapPrompt(u.engine.Tokenizer(), r.before, r.behind)
		if err != nil {
			return err
		}
		r.prompts = []prompt{textPrompt(text)}
	}
	head := &r.answer.head
	head.ID, head.Object, head.Created, head.Model = "cmpl-"+r.server.id(), "text_completion", r.server.now().Unix(), u.name
	return r.answer.run(ctx, w, r.openAIRequest, len(r.prompts), r.bestOf, func(prompt, j int, begun func()) (generated[completionChoice], error) {
		return r.choice(ctx, u, prompt, j, begun)
	})
}

// at implements numbered.
func (c completionChoice) at(index int) completionChoice {
	c.Index = index
	return c
}

// choice generates the jth choice of a prompt, and calls begun with its first token.
func (r *completionRequest) choice(ctx context.Context, u *use, prompt, j int, begun func()) (last generated[completionChoice], err error) {
	var text strings.Builder
	var logProbs *completionLogProbs
	decoder, offset := u.engine.Tokenizer().NewDecoder(), 0
	kept := tokenRoom{u: u}
	defer func() { kept.drop(err) }()
	options := r.generateOptions(u, j)
	options.LogProbs = options.LogProbs || r.bestOf > r.n
	if r.stream {
		options.OnPrefill = r.answer.stream.reading
	}
	last.spent, err = u.generate(ctx, r.prompts[prompt], options, func(p *llmrun.Piece) error {
		begun()
		last.add(p)
		entry := r.logProb(u, p)
		if entry != nil {
			if logProbs == nil || r.stream {
				logProbs = &completionLogProbs{}
			}
			logProbs.add(entry, offset)
			completed, _ := decoder.Next(p.ID) // an id of a padded vocabulary has no text
			offset += utf8.RuneCountInString(completed)
		}
		if !r.stream {
			text.WriteString(p.Text)
			return kept.keep(entry)
		}
		part := completionChoice{Text: p.Text}
		if entry != nil {
			part.LogProbs = logProbs
		} else if p.Text == "" {
			return nil
		}
		return r.answer.send(prompt*r.n+j, part)
	})
	if err != nil {
		return last, err
	}
	last.choice = completionChoice{Text: text.String(), FinishReason: finishReason(&last.spent)}
	if !r.stream {
		last.choice.LogProbs = logProbs
	}
	return last, nil
}

// add adds a token whose text begins at an offset. The most likely tokens have it beside them if it is none of them, as the API has it.
func (l *completionLogProbs) add(entry *chatLogProb, offset int) {
	top := map[string]float32{entry.Token: entry.LogProb}
	for _, t := range entry.Top {
		if _, known := top[t.Token]; !known { // tokens that end within a character can have the same text
			top[t.Token] = t.LogProb
		}
	}
	l.Tokens = append(l.Tokens, entry.Token)
	l.LogProbs = append(l.LogProbs, entry.LogProb)
	l.Top = append(l.Top, top)
	l.Offsets = append(l.Offsets, offset)
}
