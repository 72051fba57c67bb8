package serve

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/llmrun/llmrun"
)

// anthropic is the dialect of Anthropic's API.
type anthropic struct{}

// anthropicError is the error of the API, as an answer or as the last event of a stream.
type anthropicError struct {
	Type  string               `json:"type"`
	Error anthropicErrorDetail `json:"error"`
}

func (e anthropicError) eventName() string { return e.Type }

type anthropicErrorDetail struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

func (anthropic) errorBody(p *problem) any {
	kind := "invalid_request_error"
	switch {
	case p.status == http.StatusUnauthorized:
		kind = "authentication_error"
	case p.status == http.StatusForbidden:
		kind = "permission_error"
	case p.status == http.StatusNotFound:
		kind = "not_found_error"
	case p.status == http.StatusRequestEntityTooLarge:
		kind = "request_too_large"
	case p.status == http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case p.status == http.StatusServiceUnavailable:
		kind = "overloaded_error"
	case p.status >= http.StatusInternalServerError:
		kind = "api_error"
	}
	return anthropicError{"error", anthropicErrorDetail{kind, p.message}}
}

func (d anthropic) refuse(w http.ResponseWriter, p *problem) { writeProblem(w, p, d.errorBody(p)) }

func (s *Server) routeAnthropic() {
	d := anthropic{}
	s.mux.HandleFunc("POST /v1/messages", s.handle(d, s.readAnthropic))
	s.mux.HandleFunc("POST /v1/messages/count_tokens", s.handle(d, s.readAnthropicCount))
}

// anthropicMessage is an answer, complete or before its first block.
type anthropicMessage struct {
	ID           string            `json:"id"`
	Type         string            `json:"type"`
	Role         string            `json:"role"`
	Model        string            `json:"model"`
	Content      []*anthropicBlock `json:"content"`
	StopReason   *string           `json:"stop_reason"`
	StopSequence *string           `json:"stop_sequence"`
	Usage        anthropicUsage    `json:"usage"`
}

// anthropicUsage counts tokens. Those of the prompt that were not computed again are not among Input.
type anthropicUsage struct {
	Input         int `json:"input_tokens"`
	CacheCreation int `json:"cache_creation_input_tokens"`
	CacheRead     int `json:"cache_read_input_tokens"`
	Output        int `json:"output_tokens"`
}

// anthropicBlock is a text, or the thoughts before it.
type anthropicBlock struct {
	Type      string  `json:"type"`
	Text      *string `json:"text,omitempty"`
	Thinking  *string `json:"thinking,omitempty"`
	Signature *string `json:"signature,omitempty"` // of thoughts; empty, because the server accepts all

	content strings.Builder
}

// close sets the text of a block.
func (b *anthropicBlock) close() {
	text := b.content.String()
	if b.Text != nil {
		b.Text = &text
	} else {
		b.Thinking = &text
	}
}

// anthropicEvent is an event of a stream.
type anthropicEvent struct {
	Type    string            `json:"type"`
	Message *anthropicMessage `json:"message,omitempty"`
	Index   *int              `json:"index,omitempty"`
	Block   *anthropicBlock   `json:"content_block,omitempty"`
	Delta   any               `json:"delta,omitempty"`
	Usage   *anthropicUsage   `json:"usage,omitempty"`
}

func (e *anthropicEvent) eventName() string { return e.Type }

type anthropicTextDelta struct {
	Type     string  `json:"type"`
	Text     *string `json:"text,omitempty"`
	Thinking *string `json:"thinking,omitempty"`
}

type anthropicEnd struct {
	StopReason   *string `json:"stop_reason"`
	StopSequence *string `json:"stop_sequence"`
}

// anthropicRequest is a request for a message.
type anthropicRequest struct {
	server   *Server
	model    string
	stream   bool
	messages []llmrun.Message
	options  llmrun.GenerateOptions
	sampling sampling
}

// readAnthropicPrompt reads what a message and the count of its tokens have in common.
func (s *Server) readAnthropicPrompt(o *object) *anthropicRequest {
	r := &anthropicRequest{server: s, model: o.text("model")}
	if system := anthropicText(o, "system"); system != "" {
		r.messages = append(r.messages, llmrun.Message{Role: "system", Content: system})
	}
	turns := readMessages(o, func(m *object) string { return anthropicText(m, "content") })
	switch {
	case len(turns) == 0:
		o.fail("messages", "must be a list with at least one message")
	case turns[len(turns)-1].Role == "assistant":
		o.fail("messages", "must end with a message of the user: an answer that the request begins is not continued")
	}
	r.messages = append(r.messages, turns...)
	r.options.Chat.Extra = o.values("chat_template_kwargs")
	r.readThinking(o)
	o.refuse("tools", "is not supported yet")
	return r
}

// readThinking reads whether the model shall think, which is a variable of its template.
func (r *anthropicRequest) readThinking(o *object) {
	if !o.has("thinking") {
		return
	}
	thinking := o.inner("thinking")
	kind := thinking.text("type")
	switch kind {
	case "enabled", "adaptive", "disabled":
	default:
		thinking.fail("type", "must be enabled, adaptive or disabled")
	}
	if r.options.Chat.Extra == nil {
		r.options.Chat.Extra = map[string]any{}
	}
	r.options.Chat.Extra["enable_thinking"] = kind != "disabled"
}

// anthropicText reads a text, or a list of blocks of which all are texts. Thoughts of earlier answers are dropped, as templates do.
func anthropicText(o *object, field string) string {
	if raw := o.fields[field]; len(raw) == 0 || raw[0] != '[' {
		return o.text(field)
	}
	var texts []string
	for _, block := range o.list(field) {
		switch kind := block.text("type"); kind {
		case "text":
			texts = append(texts, block.text("text"))
		case "thinking", "redacted_thinking":
		case "image", "document":
			block.fail("type", fmt.Sprintf("is %q: the models read text", kind))
		default:
			block.fail("type", fmt.Sprintf("is %q; only text is supported yet", shorten(kind)))
		}
	}
	return strings.Join(texts, "\n")
}

func (s *Server) readAnthropic(o *object) *job {
	r := s.readAnthropicPrompt(o)
	r.stream = o.boolean("stream", false)
	if n := o.whole("max_tokens", 1, maxTokens); n != nil {
		r.options.MaxTokens = int(*n)
	} else {
		o.fail("max_tokens", "is missing")
	}
	r.options.Stop = readStopField(o, "stop_sequences")
	r.sampling = readSampling(o)
	return &job{model: r.model, named: true, run: r.run}
}

func (s *Server) readAnthropicCount(o *object) *job {
	r := s.readAnthropicPrompt(o)
	return &job{model: r.model, run: func(_ context.Context, w http.ResponseWriter, u *use) error {
		ids, err := u.engine.EncodeChat(r.messages, r.options.Chat)
		if err == nil {
			writeJSON(w, http.StatusOK, map[string]int{"input_tokens": len(ids)})
		}
		return err
	}}
}

// anthropicRun is a message while it is generated.
type anthropicRun struct {
	*anthropicRequest
	stream  *stream // nil without one
	begun   bool
	message anthropicMessage
}

func (r *anthropicRequest) run(ctx context.Context, w http.ResponseWriter, u *use) error {
	if err := checkBias(r.sampling.bias, u.engine.Info().Vocab); err != nil {
		return err
	}
	g := &anthropicRun{anthropicRequest: r, message: anthropicMessage{
		ID: "msg_" + r.server.id(), Type: "message", Role: "assistant", Model: u.name, Content: []*anthropicBlock{},
	}}
	r.options.Sampling = r.sampling.over(u.engine.DefaultSampling())
	if r.stream {
		g.stream = newStream(w, true)
		r.options.OnPrefill = g.stream.reading
	}
	stats, err := u.generate(ctx, chatPrompt(r.messages), r.options, g.piece)
	if err == nil {
		err = g.finish(stats)
	}
	switch {
	case err != nil && g.stream != nil && g.stream.started:
		r.server.breakOff(ctx, g.stream, err, anthropic{}.errorBody)
		return nil
	case err != nil:
		return err
	case g.stream == nil:
		writeJSON(w, http.StatusOK, &g.message)
	}
	return nil
}

// send sends an event, if the message is streamed.
func (g *anthropicRun) send(e anthropicEvent) error {
	if g.stream == nil {
		return nil
	}
	return g.stream.send(&e)
}

// begin sends the event before the first block.
func (g *anthropicRun) begin() error {
	if g.begun {
		return nil
	}
	g.begun = true
	return g.send(anthropicEvent{Type: "message_start", Message: &g.message})
}

// piece adds a piece of the answer.
func (g *anthropicRun) piece(p *llmrun.Piece) error {
	if err := g.begin(); err != nil || p.Text == "" {
		return err
	}
	index, err := g.block(p.Answers())
	if err != nil {
		return err
	}
	g.message.Content[index].content.WriteString(p.Text)
	delta := anthropicTextDelta{Type: "text_delta", Text: &p.Text}
	if !p.Answers() {
		delta = anthropicTextDelta{Type: "thinking_delta", Thinking: &p.Text}
	}
	return g.send(anthropicEvent{Type: "content_block_delta", Index: &index, Delta: delta})
}

// block returns the index of the last block, which is a text or holds thoughts. It begins one if the last one is the other kind.
func (g *anthropicRun) block(text bool) (int, error) {
	last := len(g.message.Content) - 1
	if last >= 0 {
		if (g.message.Content[last].Text != nil) == text {
			return last, nil
		}
		if err := g.closeBlock(); err != nil {
			return 0, err
		}
	}
	b := &anthropicBlock{Type: "text", Text: new(string)}
	if !text {
		b = &anthropicBlock{Type: "thinking", Thinking: new(string), Signature: new(string)}
	}
	g.message.Content = append(g.message.Content, b)
	last++
	return last, g.send(anthropicEvent{Type: "content_block_start", Index: &last, Block: b})
}

// closeBlock ends the last block.
func (g *anthropicRun) closeBlock() error {
	last := len(g.message.Content) - 1
	g.message.Content[last].close()
	return g.send(anthropicEvent{Type: "content_block_stop", Index: &last})
}

// finish ends the message.
func (g *anthropicRun) finish(stats llmrun.Stats) error {
	if err := g.begin(); err != nil {
		return err
	}
	if len(g.message.Content) > 0 {
		if err := g.closeBlock(); err != nil {
			return err
		}
	}
	reason := "end_turn"
	switch stats.StopReason {
	case llmrun.StopLength:
		reason = "max_tokens"
	case llmrun.StopContext:
		reason = "model_context_window_exceeded"
	case llmrun.StopString:
		reason, g.message.StopSequence = "stop_sequence", &stats.StopText
	}
	g.message.StopReason = &reason
	g.message.Usage = anthropicUsage{
		Input: stats.PromptTokens - stats.ReusedTokens, CacheRead: stats.ReusedTokens, Output: stats.GeneratedTokens,
	}
	err := g.send(anthropicEvent{Type: "message_delta", Delta: anthropicEnd{g.message.StopReason, g.message.StopSequence}, Usage: &g.message.Usage})
	if err != nil {
		return err
	}
	return g.send(anthropicEvent{Type: "message_stop"})
}
