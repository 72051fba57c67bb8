package serve

import (
	"context"
	"fmt"
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

// chatRequest is a request for a chat completion.
type chatRequest struct {
	*openAIRequest
	prompt   prompt
	thinking string // the level that the request wants
	answer   openAIChoices[chatChoice]
}

// maxTopLogProbs is the greatest top_logprobs of the API.
const maxTopLogProbs = 20

func (s *Server) readChat(o *object) *job {
	r := s.readChatRequest(o)
	return &job{model: r.model, named: r.n == 1, format: r.format, run: r.run}
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
	readToolChoice(o, nestedProperties, chat)
	chat.OneToolCall = !o.boolean("parallel_tool_calls", true)
	if format := readResponseFormat(o, &r.options); chat.ToolChoice != llmrun.ToolsRequired { // else it is not held to it
		r.format = format
	}
	o.refuse("functions", "is not supported: use tools")
	o.refuse("audio", "is not supported")
	return r
}

// run generates the choices, which share the keys and values of the prompt.
func (r *chatRequest) run(ctx context.Context, w http.ResponseWriter, u *use) error {
	if err := u.prepare(&r.options.Chat, r.thinking, r.sampling.bias); err != nil {
		return err
	}
	head := &r.answer.head
	head.ID, head.Object, head.Created, head.Model = "chatcmpl-"+r.server.id(), "chat.completion", r.server.now().Unix(), u.name
	if r.stream {
		head.Object = "chat.completion.chunk"
	}
	return r.answer.run(ctx, w, r.openAIRequest, 1, r.n, func(_, index int, started func()) (generated[chatChoice], error) {
		return r.choice(ctx, u, index, started)
	})
}

// at implements numbered.
func (c chatChoice) at(index int) chatChoice {
	c.Index = index
	return c
}

// choice generates the choice with an index, and calls started with its first token.
func (r *chatRequest) choice(ctx context.Context, u *use, index int, started func()) (last generated[chatChoice], err error) {
	var got llmrun.Answer
	var logProbs *chatLogProbs
	kept := tokenRoom{u: u}
	defer func() { kept.drop(err) }()
	begun := !r.stream
	begin := func() error {
		if begun {
			return nil
		}
		begun = true
		return r.answer.send(index, chatChoice{Delta: &chatDelta{Role: "assistant", Content: new(string)}})
	}
	options := r.generateOptions(u, index)
	if r.stream {
		options.OnPrefill = r.answer.stream.reading
	}
	last.spent, err = u.generate(ctx, r.prompt, options, func(p *llmrun.Piece) error {
		started()
		if err := begin(); err != nil {
			return err
		}
		got.Add(p)
		entry := r.logProb(u, p)
		if entry != nil {
			if logProbs == nil || r.stream {
				logProbs = &chatLogProbs{}
			}
			logProbs.Content = append(logProbs.Content, *entry)
		}
		if !r.stream {
			return kept.keep(entry)
		}
		part := chatChoice{Delta: delta(p, &got)}
		if entry != nil {
			part.LogProbs = logProbs
		} else if part.Delta.empty() {
			return nil
		}
		return r.answer.send(index, part)
	})
	if err != nil {
		return last, err
	}
	if err := begin(); err != nil { // the model ended at once
		return last, err
	}
	c := &last.choice
	c.FinishReason = chatFinishReason(&last.spent, &got)
	if r.stream {
		c.Delta = &chatDelta{}
	} else {
		c.Message, c.LogProbs = message(&got), logProbs
	}
	return last, nil
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
	entry := &chatLogProb{chatToken: u.token(p.ID, p.LogProb), Top: make([]chatToken, 0, len(p.Top))}
	for _, top := range p.Top {
		entry.Top = append(entry.Top, u.token(top.ID, top.LogProb))
	}
	return entry
}

// token describes a token by its text and, because it may end within a character, by its bytes. Without a tokenizer it is named by its id.
func (u *use) token(id int32, logProb float32) chatToken {
	tokenizer := u.engine.Tokenizer()
	if tokenizer == nil {
		return chatToken{Token: fmt.Sprintf("token_id:%d", id), LogProb: jsonLogProb(logProb), Bytes: []int{}}
	}
	bytes := tokenizer.Bytes(id)
	token := chatToken{Token: strings.ToValidUTF8(string(bytes), "\uFFFD"), LogProb: jsonLogProb(logProb), Bytes: []int{}}
	for _, b := range bytes {
		token.Bytes = append(token.Bytes, int(b))
	}
	return token
}
