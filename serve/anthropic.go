package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"time"

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

// asksAnthropic reports whether a request comes from a client of the API: all of them name its version. OpenAI's API has endpoints with the
// same paths.
func asksAnthropic(r *http.Request) bool { return r.Header.Get("Anthropic-Version") != "" }

// anthropicModel is a model in listings.
type anthropicModel struct {
	Type    string    `json:"type"`
	ID      string    `json:"id"`
	Name    string    `json:"display_name"`
	Created time.Time `json:"created_at"`
	Input   int       `json:"max_input_tokens"` // of prompts and answers together
	Output  int       `json:"max_tokens"`
}

func (s *Server) anthropicModel(o offered) anthropicModel {
	d, _ := o.describe() // the error is the answer to those who use the model
	return anthropicModel{"model", o.name, o.name, s.modified(o.entry).UTC().Truncate(time.Second), d.info.MaxContext, d.info.MaxContext}
}

// anthropicModels is a listing, which has all models.
type anthropicModels struct {
	Data    []anthropicModel `json:"data"`
	More    bool             `json:"has_more"`
	FirstID string           `json:"first_id"`
	LastID  string           `json:"last_id"`
}

func (s *Server) anthropicModels() (list anthropicModels) {
	for _, o := range s.models.offered() {
		list.Data = append(list.Data, s.anthropicModel(o))
	}
	list.FirstID, list.LastID = list.Data[0].ID, list.Data[len(list.Data)-1].ID
	return list
}

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

func usageOf(s llmrun.Stats) anthropicUsage {
	return anthropicUsage{Input: s.PromptTokens - s.ReusedTokens, CacheRead: s.ReusedTokens, Output: s.GeneratedTokens}
}

// anthropicBlock is a text, the thoughts before it, or a call of a tool.
type anthropicBlock struct {
	Type      string  `json:"type"`
	Text      *string `json:"text,omitempty"`
	Thinking  *string `json:"thinking,omitempty"`
	Signature *string `json:"signature,omitempty"` // of thoughts; empty, because the server accepts all
	// Of a call.
	ID    string          `json:"id,omitempty"`
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`

	content strings.Builder
}

// close sets what a block has when it ends.
func (b *anthropicBlock) close() {
	text := b.content.String()
	switch {
	case b.Text != nil:
		b.Text = &text
	case b.Thinking != nil:
		b.Thinking = &text
	default:
		b.Input = rawArguments(&llmrun.ToolCall{Arguments: text})
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
	Input    *string `json:"partial_json,omitempty"`
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
	thinking string // the level that the request wants
	sampling sampling
	prompt   prompt // of tests; nil = the conversation
}

// readAnthropicPrompt reads what a message and the count of its tokens have in common.
func (s *Server) readAnthropicPrompt(o *object) *anthropicRequest {
	r := &anthropicRequest{server: s, model: o.text("model")}
	if system := anthropicText(o, "system"); system != "" {
		r.messages = append(r.messages, llmrun.Message{Role: "system", Content: system})
	}
	turns := readTurns(o)
	switch {
	case len(turns) == 0:
		o.fail("messages", "must be a list with at least one message")
	case turns[len(turns)-1].Role == "assistant":
		o.fail("messages", "must end with a message of the user: an answer that the request begins is not continued")
	}
	r.messages = append(r.messages, turns...)
	r.options.Chat.Extra = o.values("chat_template_kwargs")
	r.readThinking(o)
	r.readTools(o)
	return r
}

// readThinking reads whether the model shall think.
func (r *anthropicRequest) readThinking(o *object) {
	if !o.has("thinking") {
		return
	}
	thinking := o.inner("thinking")
	switch thinking.text("type") {
	case "enabled", "adaptive":
		r.thinking = llmrun.ThinkOn
	case "disabled":
		r.thinking = llmrun.ThinkOff
	default:
		thinking.fail("type", "must be enabled, adaptive or disabled")
	}
}

// readTools reads the tools that the model may call, and whether it must.
func (r *anthropicRequest) readTools(o *object) {
	chat := &r.options.Chat
	for _, t := range o.list("tools") {
		if kind := t.text("type"); kind != "" && kind != "custom" {
			t.fail("type", "must be custom: the server itself has no tools")
		}
		chat.Tools = append(chat.Tools, readTool(t, "input_schema"))
	}
	if !o.has("tool_choice") {
		return
	}
	choice := o.inner("tool_choice")
	chat.OneToolCall = choice.boolean("disable_parallel_tool_use", false)
	switch choice.text("type") {
	case "auto":
	case "none":
		chat.ToolChoice = llmrun.ToolsNone
	case "any":
		if chat.ToolChoice = llmrun.ToolsRequired; len(chat.Tools) == 0 {
			o.fail("tool_choice", "needs tools")
		}
	case "tool":
		requireTool(choice, chat)
	default:
		choice.fail("type", "must be auto, any, tool or none")
	}
}

// readTurns reads the messages. The results of tools are in messages of the user, and are messages of their own for a template.
func readTurns(o *object) (all []llmrun.Message) {
	for _, m := range o.list("messages") {
		message := llmrun.Message{Role: readRole(m)}
		m.need("content")
		if m.kind("content") != isList {
			message.Content = m.text("content")
			all = append(all, message)
			continue
		}
		var texts []string
		results := 0
		for _, block := range m.list("content") {
			switch kind := block.text("type"); {
			case kind == "tool_use" && message.Role == "assistant":
				message.ToolCalls = append(message.ToolCalls, readToolUse(block))
			case kind == "tool_result" && message.Role == "user":
				all = append(all, readToolResult(block))
				results++
			default:
				if text, ok := readTextBlock(block); ok {
					texts = append(texts, text)
				}
			}
		}
		if message.Content = strings.Join(texts, "\n"); message.Content != "" || results == 0 {
			all = append(all, message)
		}
	}
	linkResults(all)
	return all
}

// readToolUse reads a call of an earlier answer.
func readToolUse(block *object) llmrun.ToolCall {
	call := llmrun.ToolCall{ID: block.text("id"), Name: block.text("name"), Arguments: "{}"}
	if call.Name == "" {
		block.fail("name", "must be the name of the tool")
	}
	if block.has("input") {
		block.inner("input") // an object
		call.Arguments = string(block.raw("input"))
	}
	return call
}

// readToolResult reads the result of a call. Templates know no failed calls, so the text says that the call has failed.
func readToolResult(block *object) llmrun.Message {
	m := llmrun.Message{Role: "tool", ToolCallID: block.text("tool_use_id"), Content: anthropicText(block, "content")}
	if block.boolean("is_error", false) {
		m.Content = strings.TrimSpace("Error: " + m.Content)
	}
	return m
}

// readTextBlock reads a block that must be a text. Thoughts of earlier answers are dropped, as templates do.
func readTextBlock(block *object) (text string, ok bool) {
	switch kind := block.text("type"); kind {
	case "text":
		return block.text("text"), true
	case "thinking", "redacted_thinking":
	case "document":
		source := block.inner("source")
		if kind := source.text("type"); kind != "text" {
			source.fail("type", fmt.Sprintf("is %q; of documents only text is supported", shorten(kind)))
		}
		return source.text("data"), true
	case "image":
		block.fail("type", fmt.Sprintf("is %q: the models read text", kind))
	default:
		block.fail("type", fmt.Sprintf("is %q; a message has text, and calls or results of tools", shorten(kind)))
	}
	return "", false
}

// anthropicText reads a text, or a list of blocks of which all are texts.
func anthropicText(o *object, field string) string {
	if o.kind(field) != isList {
		return o.text(field)
	}
	var texts []string
	for _, block := range o.list(field) {
		if text, ok := readTextBlock(block); ok {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n")
}

func (s *Server) readAnthropic(o *object) *job {
	r := s.readAnthropicPrompt(o)
	r.stream = o.boolean("stream", false)
	o.need("max_tokens")
	if n := o.whole("max_tokens", 1, maxTokens); n != nil {
		r.options.MaxTokens = int(*n)
	}
	r.options.Stop = readStopField(o, "stop_sequences")
	r.sampling = readSampling(o)
	return &job{model: r.model, named: true, run: r.run}
}

func (s *Server) readAnthropicCount(o *object) *job {
	r := s.readAnthropicPrompt(o)
	return &job{model: r.model, run: func(_ context.Context, w http.ResponseWriter, u *use) error {
		if err := u.prepare(&r.options.Chat, r.thinking, r.sampling.bias); err != nil {
			return err
		}
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
	stats   func() llmrun.Stats // of the generation so far
	stream  *stream             // nil without one
	begun   bool
	open    bool // the last block has not ended
	calls   int
	message anthropicMessage
}

func (r *anthropicRequest) run(ctx context.Context, w http.ResponseWriter, u *use) error {
	if err := u.prepare(&r.options.Chat, r.thinking, r.sampling.bias); err != nil {
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
	if r.prompt == nil {
		r.prompt = chatPrompt(r.messages)
	}
	prompt := func(ctx context.Context, s *llmrun.Session, o llmrun.GenerateOptions) iter.Seq2[llmrun.Piece, error] {
		g.stats = s.Stats
		return r.prompt(ctx, s, o)
	}
	took, err := u.generate(ctx, prompt, r.options, g.piece)
	if err == nil {
		err = g.finish(took.Stats)
	}
	if err != nil {
		return r.server.breakOff(ctx, g.stream, err, anthropic{}.errorBody)
	}
	if g.stream == nil {
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
	g.message.Usage = usageOf(g.stats())
	g.message.Usage.Output = 0
	return g.send(anthropicEvent{Type: "message_start", Message: &g.message})
}

// piece adds a piece of the answer.
func (g *anthropicRun) piece(p *llmrun.Piece) error {
	if err := g.begin(); err != nil {
		return err
	}
	if p.Kind == llmrun.KindToolCall {
		return g.callPiece(p)
	}
	if p.Text == "" {
		return nil
	}
	kind, delta := "text", anthropicTextDelta{Type: "text_delta", Text: &p.Text}
	if p.Kind == llmrun.KindThinking {
		kind, delta = "thinking", anthropicTextDelta{Type: "thinking_delta", Thinking: &p.Text}
	}
	if !g.open || g.last().Type != kind {
		b := &anthropicBlock{Type: kind, Text: new(string)}
		if kind == "thinking" {
			b = &anthropicBlock{Type: kind, Thinking: new(string), Signature: new(string)}
		}
		if err := g.add(b); err != nil {
			return err
		}
	}
	return g.append(p.Text, delta)
}

// callPiece adds a piece of a call.
func (g *anthropicRun) callPiece(p *llmrun.Piece) error {
	if p.Call != nil {
		g.calls++
		if err := g.add(&anthropicBlock{Type: "tool_use", ID: p.Call.ID, Name: p.Call.Name, Input: json.RawMessage("{}")}); err != nil {
			return err
		}
	}
	if !g.open || g.last().Type != "tool_use" {
		return nil // what a model says to tools without a call
	}
	if p.Text != "" {
		if err := g.append(p.Text, anthropicTextDelta{Type: "input_json_delta", Input: &p.Text}); err != nil {
			return err
		}
	}
	if p.CallEnds {
		return g.closeBlock()
	}
	return nil
}

func (g *anthropicRun) last() *anthropicBlock { return g.message.Content[len(g.message.Content)-1] }

// append adds a text to the open block.
func (g *anthropicRun) append(text string, delta anthropicTextDelta) error {
	g.last().content.WriteString(text)
	index := len(g.message.Content) - 1
	return g.send(anthropicEvent{Type: "content_block_delta", Index: &index, Delta: delta})
}

// add begins a block.
func (g *anthropicRun) add(b *anthropicBlock) error {
	if err := g.closeBlock(); err != nil {
		return err
	}
	index := len(g.message.Content)
	g.message.Content, g.open = append(g.message.Content, b), true
	return g.send(anthropicEvent{Type: "content_block_start", Index: &index, Block: b})
}

// closeBlock ends the open block, if there is one.
func (g *anthropicRun) closeBlock() error {
	if !g.open {
		return nil
	}
	g.open = false
	g.last().close()
	index := len(g.message.Content) - 1
	return g.send(anthropicEvent{Type: "content_block_stop", Index: &index})
}

// finish ends the message.
func (g *anthropicRun) finish(stats llmrun.Stats) error {
	if err := g.begin(); err != nil {
		return err
	}
	if err := g.closeBlock(); err != nil {
		return err
	}
	reason := "end_turn"
	if g.calls > 0 {
		reason = "tool_use"
	}
	switch stats.StopReason {
	case llmrun.StopLength:
		reason = "max_tokens"
	case llmrun.StopContext:
		reason = "model_context_window_exceeded"
	case llmrun.StopString:
		reason, g.message.StopSequence = "stop_sequence", &stats.StopText
	}
	g.message.StopReason = &reason
	g.message.Usage = usageOf(stats)
	err := g.send(anthropicEvent{Type: "message_delta", Delta: anthropicEnd{g.message.StopReason, g.message.StopSequence}, Usage: &g.message.Usage})
	if err != nil {
		return err
	}
	return g.send(anthropicEvent{Type: "message_stop"})
}
