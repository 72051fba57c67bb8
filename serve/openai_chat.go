package serve

import (
	"context"
	"net/http"
	"strings"

	"github.com/llmrun/llmrun"
)

// chatChoice is an answer of a chat completion, or a piece of one.
type chatChoice struct {
	Index        int           `json:"index"`
	Message      *chatMessage  `json:"message,omitempty"`
	Delta        *chatDelta    `json:"delta,omitempty"`
	LogProbs     *chatLogProbs `json:"logprobs"`
	FinishReason *string       `json:"finish_reason"`
}

type chatMessage struct {
	Role      string         `json:"role"`
	Content   *string        `json:"content"`
	Reasoning string         `json:"reasoning_content,omitempty"`
	ToolCalls []chatToolCall `json:"tool_calls,omitempty"`
	Refusal   *string        `json:"refusal"`
}

type chatDelta struct {
	Role      string         `json:"role,omitempty"`
	Content   *string        `json:"content,omitempty"`
	Reasoning string         `json:"reasoning_content,omitempty"`
	ToolCalls []chatToolCall `json:"tool_calls,omitempty"`
}

type chatLogProbs struct {
	Content []chatLogProb `json:"content"`
	Refusal *string       `json:"refusal"`
}

type chatLogProb struct {
	chatToken
	Top []chatToken `json:"top_logprobs"`
}

type chatToken struct {
	Token   string  `json:"token"`
	LogProb float32 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

// chatCompletion is an answer, or with the object chat.completion.chunk a part of one.
type chatCompletion struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	Usage   *openAIUsage `json:"usage,omitempty"`
}

// chatRequest is a request for a chat completion.
type chatRequest struct {
	*openAIRequest
	prompt   prompt
	thinking string         // the level that the request wants
	head     chatCompletion // what all parts of the answer have in common
	usage    openAIUsage
}

// maxTopLogProbs is the greatest top_logprobs of the API.
const maxTopLogProbs = 20

func (s *Server) readChat(o *object) *job {
	r := s.readChatRequest(o)
	return &job{model: r.model, named: r.n == 1, run: r.run}
}

func (s *Server) readChatRequest(o *object) *chatRequest {
	r := &chatRequest{openAIRequest: s.readOpenAI(o)}
	r.logProbs = o.boolean("logprobs", false)
	if top := o.whole("top_logprobs", 0, maxTopLogProbs); top != nil {
		if r.top = int(*top); r.top > 0 && !r.logProbs {
			o.fail("top_logprobs", "needs logprobs")
		}
	}
	messages := readMessages(o, openAIContent)
	r.prompt = chatPrompt(messages)
	if len(messages) == 0 {
		o.fail("messages", "must be a list with at least one message")
	}
	r.thinking = readEffort(o, "reasoning_effort")
	chat := &r.options.Chat
	chat.Extra = o.values("chat_template_kwargs")
	chat.Tools = readTools(o)
	readToolChoice(o, chat)
	chat.OneToolCall = !o.boolean("parallel_tool_calls", true)
	refuseFormat(o)
	o.refuse("functions", "is not supported: use tools")
	o.refuse("audio", "is not supported")
	return r
}

// run generates the choices: together, or one after the other if they are streamed. They share the keys and values of the prompt.
func (r *chatRequest) run(ctx context.Context, w http.ResponseWriter, u *use) error {
	if err := u.prepare(&r.options.Chat, r.thinking, r.sampling.bias); err != nil {
		return err
	}
	r.head = chatCompletion{ID: "chatcmpl-" + r.server.id(), Object: "chat.completion", Created: r.server.now().Unix(), Model: u.name}
	if r.stream {
		return r.runStream(ctx, w, u)
	}
	r.head.Choices = make([]chatChoice, r.n)
	stats := make([]llmrun.Stats, r.n)
	err := together(r.n, func(i int, begun func()) (err error) {
		r.head.Choices[i], stats[i], err = r.choice(ctx, u, i, begun)
		return err
	})
	if err != nil {
		return err
	}
	for i := range stats {
		r.usage.add(stats[i], i == 0)
	}
	r.head.Usage = &r.usage
	writeJSON(w, http.StatusOK, r.head)
	return nil
}

// choice generates a choice, and calls begun with its first token.
func (r *chatRequest) choice(ctx context.Context, u *use, i int, begun func()) (chatChoice, llmrun.Stats, error) {
	choice := chatChoice{Index: i}
	var got llmrun.Answer
	stats, err := u.generate(ctx, r.prompt, r.generateOptions(u, i), func(p *llmrun.Piece) error {
		begun()
		got.Add(p)
		if entry := r.logProb(u, p); entry != nil {
			if choice.LogProbs == nil {
				choice.LogProbs = &chatLogProbs{}
			}
			choice.LogProbs.Content = append(choice.LogProbs.Content, *entry)
		}
		return nil
	})
	if err != nil {
		return choice, stats, err
	}
	choice.Message, choice.FinishReason = message(&got), chatFinishReason(stats, &got)
	return choice, stats, nil
}

// runStream sends the choices as server-sent events. Errors before the first event are answered by a status.
func (r *chatRequest) runStream(ctx context.Context, w http.ResponseWriter, u *use) error {
	r.head.Object = "chat.completion.chunk"
	t := newStream(w, true)
	if err := r.sendChoices(ctx, t, u); err != nil {
		return r.server.breakOff(ctx, t, err, openAI{}.errorBody)
	}
	return nil
}

func (r *chatRequest) sendChoices(ctx context.Context, t *stream, u *use) error {
	for i := range r.n {
		begun, got := false, llmrun.Answer{}
		begin := func() error {
			if begun {
				return nil
			}
			begun = true
			return r.send(t, chatChoice{Index: i, Delta: &chatDelta{Role: "assistant", Content: new(string)}})
		}
		options := r.generateOptions(u, i)
		options.OnPrefill = t.reading
		stats, err := u.generate(ctx, r.prompt, options, func(p *llmrun.Piece) error {
			if err := begin(); err != nil {
				return err
			}
			got.Add(p)
			choice := chatChoice{Index: i, Delta: delta(p, &got)}
			if entry := r.logProb(u, p); entry != nil {
				choice.LogProbs = &chatLogProbs{Content: []chatLogProb{*entry}}
			} else if choice.Delta.empty() {
				return nil
			}
			return r.send(t, choice)
		})
		if err != nil {
			return err
		}
		if err := begin(); err != nil { // the model ended at once
			return err
		}
		r.usage.add(stats, i == 0)
		if err := r.send(t, chatChoice{Index: i, Delta: &chatDelta{}, FinishReason: chatFinishReason(stats, &got)}); err != nil {
			return err
		}
	}
	if r.includeUsage {
		r.head.Choices, r.head.Usage = []chatChoice{}, &r.usage
		if err := t.send(r.head); err != nil {
			return err
		}
	}
	return t.end()
}

// send sends a part of a choice.
func (r *chatRequest) send(t *stream, c chatChoice) error {
	chunk := r.head
	chunk.Choices = []chatChoice{c}
	return t.send(chunk)
}

// logProb returns what the request asks for about the token of a piece, nil for nothing.
func (r *openAIRequest) logProb(u *use, p *llmrun.Piece) *chatLogProb {
	if !r.logProbs || p.ID < 0 {
		return nil
	}
	return u.logProb(p)
}

// logProb describes the token of a piece.
func (u *use) logProb(p *llmrun.Piece) *chatLogProb {
	entry := &chatLogProb{chatToken: u.token(p.ID, p.LogProb), Top: []chatToken{}}
	for _, top := range p.Top {
		entry.Top = append(entry.Top, u.token(top.ID, top.LogProb))
	}
	return entry
}

// token describes a token by its text and, because it may end within a character, by its bytes.
func (u *use) token(id int32, logProb float32) chatToken {
	bytes := u.engine.Tokenizer().Bytes(id)
	token := chatToken{Token: strings.ToValidUTF8(string(bytes), "\uFFFD"), LogProb: jsonLogProb(logProb), Bytes: []int{}}
	for _, b := range bytes {
		token.Bytes = append(token.Bytes, int(b))
	}
	return token
}
