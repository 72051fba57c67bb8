package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/llmrun/llmrun"
)

// response is an answer of the responses endpoint, complete or so far.
type response struct {
	ID         string              `json:"id"`
	Object     string              `json:"object"`
	Created    int64               `json:"created_at"`
	Completed  *int64              `json:"completed_at"`
	Status     string              `json:"status"`
	Background bool                `json:"background"`
	Error      *responseError      `json:"error"`
	Incomplete *responseIncomplete `json:"incomplete_details"`
	responseSettings
	Output []*responseItem `json:"output"`
	Usage  *responseUsage  `json:"usage"`
}

// responseSettings are fields of a request that its response repeats.
type responseSettings struct {
	Model         string            `json:"model"`
	Instructions  *string           `json:"instructions"`
	MaxOutput     *int64            `json:"max_output_tokens"`
	Previous      *string           `json:"previous_response_id"`
	Temperature   *float32          `json:"temperature"`
	TopP          *float32          `json:"top_p"`
	TopLogProbs   int               `json:"top_logprobs"`
	Truncation    string            `json:"truncation"`
	Store         bool              `json:"store"`
	Reasoning     responseReasoning `json:"reasoning"`
	Text          responseText      `json:"text"`
	ToolChoice    any               `json:"tool_choice"`
	Tools         []any             `json:"tools"`
	ParallelCalls bool              `json:"parallel_tool_calls"`
	User          *string           `json:"user"`
	Metadata      map[string]any    `json:"metadata"`
}

type responseReasoning struct {
	Effort  *string `json:"effort"`
	Summary *string `json:"summary"`
}

type responseText struct {
	Format responseFormat `json:"format"`
}

type responseFormat struct {
	Type   string          `json:"type"`
	Name   string          `json:"name,omitempty"`
	Schema json.RawMessage `json:"schema,omitempty"`
	Strict *bool           `json:"strict,omitempty"`
}

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type responseIncomplete struct {
	Reason string `json:"reason"`
}

type responseUsage struct {
	Input         int                    `json:"input_tokens"`
	InputDetails  openAIPromptTokens     `json:"input_tokens_details"`
	Output        int                    `json:"output_tokens"`
	OutputDetails openAICompletionTokens `json:"output_tokens_details"`
	Total         int                    `json:"total_tokens"`
}

// responseItem is a message, the thoughts before it, or a call of a tool.
type responseItem struct {
	ID      string          `json:"id"`
	Type    string          `json:"type"`
	Status  string          `json:"status"`
	Role    string          `json:"role,omitempty"`    // of a message
	Summary *[]any          `json:"summary,omitempty"` // of thoughts; empty
	Content []*responsePart `json:"content,omitzero"`
	// Of a call.
	CallID    string  `json:"call_id,omitempty"`
	Name      string  `json:"name,omitempty"`
	Arguments *string `json:"arguments,omitempty"`

	text strings.Builder
}

// responsePart is the text of an item.
type responsePart struct {
	Type        string         `json:"type"`
	Text        string         `json:"text"`
	Annotations *[]any         `json:"annotations,omitempty"` // of a message; empty
	LogProbs    *[]chatLogProb `json:"logprobs,omitempty"`    // of a message
}

// responseEvent is an event of a stream.
type responseEvent struct {
	Type     string         `json:"type"`
	Sequence int            `json:"sequence_number"`
	Response *response      `json:"response,omitempty"`
	Output   *int           `json:"output_index,omitempty"`
	ItemID   string         `json:"item_id,omitempty"`
	Item     *responseItem  `json:"item,omitempty"`
	Content  *int           `json:"content_index,omitempty"`
	Part     *responsePart  `json:"part,omitempty"`
	Delta    *string        `json:"delta,omitempty"`
	Text     *string        `json:"text,omitempty"`
	LogProbs *[]chatLogProb `json:"logprobs,omitempty"`
	// Arguments are those of a call that has ended.
	Arguments *string `json:"arguments,omitempty"`
}

func (e *responseEvent) eventName() string { return e.Type }

// responseRequest is a request for a response.
type responseRequest struct {
	server   *Server
	settings responseSettings
	stream   bool
	truncate bool
	logProbs bool
	messages []llmrun.Message // of the input
	earlier  []llmrun.Message // of the response that this one continues
	options  llmrun.GenerateOptions
	thinking string // the level that the request wants
	sampling sampling
	prompt   prompt // of tests; nil = the conversation
}

func (s *Server) readResponse(o *object) *job {
	r := s.readResponseRequest(o)
	j := &job{model: r.settings.Model, named: true, run: r.run}
	if r.options.Chat.ToolChoice != llmrun.ToolsRequired { // else it is not held to it
		j.format = "text.format.schema"
	}
	return j
}

func (s *Server) readResponseRequest(o *object) *responseRequest {
	r := &responseRequest{
		server: s, stream: o.boolean("stream", false), sampling: readSampling(o), messages: readInput(o),
		settings: responseSettings{
			Model: o.text("model"), Instructions: o.optional("instructions"), Previous: o.optional("previous_response_id"),
			MaxOutput: o.whole("max_output_tokens", 1, maxTokens), Store: o.boolean("store", true), User: o.optional("user"),
			Truncation: "disabled", Text: responseText{responseFormat{Type: "text"}}, ToolChoice: "auto", Tools: []any{}, ParallelCalls: true,
			Metadata: o.values("metadata"),
		},
	}
	set := &r.settings
	set.Temperature, set.TopP = r.sampling.temperature, r.sampling.topP
	if set.MaxOutput != nil {
		r.options.MaxTokens = int(*set.MaxOutput)
	}
	if set.Metadata == nil {
		set.Metadata = map[string]any{}
	}
	r.options.Stop = readStops(o)
	thinking := o.inner("reasoning")
	set.Reasoning.Effort = thinking.optional("effort")
	r.options.Chat.Extra, r.thinking = o.values("chat_template_kwargs"), readEffort(thinking, "effort")
	r.readProbabilities(o)
	switch how := o.text("truncation"); how {
	case "", "disabled":
	case "auto":
		set.Truncation, r.truncate = how, true
	default:
		o.fail("truncation", "must be auto or disabled")
	}
	r.readTextFormat(o.inner("text").inner("format"))
	r.readTools(o)
	o.refuse("background", "is not supported: the response is the answer to the request")
	o.refuse("conversation", "is not supported: previous_response_id continues a conversation")
	o.refuse("prompt", "is not supported: the server stores no prompts")
	return r
}

// readTools reads the tools that the model may call, and whether it must.
func (r *responseRequest) readTools(o *object) {
	chat, set := &r.options.Chat, &r.settings
	for _, t := range o.list("tools") {
		if kind := t.text("type"); kind != "function" {
			t.fail("type", "must be function: the server itself has no tools")
		}
		chat.Tools = append(chat.Tools, readTool(t, "parameters"))
	}
	if tools := o.fields["tools"]; len(tools.items) > 0 {
		set.Tools, _ = tools.any().([]any)
	}
	set.ParallelCalls = o.boolean("parallel_tool_calls", true)
	chat.OneToolCall = !set.ParallelCalls
	readToolChoice(o, flatProperties, chat)
	if choice := o.fields["tool_choice"]; choice.kind != isNull {
		set.ToolChoice = choice.any()
	}
}

// readTextFormat reads what the answer is held to.
func (r *responseRequest) readTextFormat(format *object) {
	kind := readFormat(format, format, &r.options)
	if kind == "" || kind == "text" {
		return
	}
	r.settings.Text.Format = responseFormat{Type: kind}
	if kind == "json_schema" {
		strict := format.boolean("strict", false)
		r.settings.Text.Format = responseFormat{kind, format.text("name"), format.raw("schema"), &strict}
	}
}

// readProbabilities reads whether the response has probabilities of tokens.
func (r *responseRequest) readProbabilities(o *object) {
	for _, name := range o.texts("include") {
		r.logProbs = r.logProbs || name == "message.output_text.logprobs"
	}
	if top := o.whole("top_logprobs", 0, maxTopLogProbs); top != nil {
		r.settings.TopLogProbs = int(*top)
	}
	r.options.LogProbs = r.logProbs
	if r.logProbs {
		r.options.TopLogProbs = r.settings.TopLogProbs
	}
}

// readInput reads the messages of the input: a text of the user, or a list of items.
func readInput(o *object) (messages []llmrun.Message) {
	const field = "input"
	if o.need(field); !o.has(field) {
		return nil
	}
	if o.kind(field) == isText {
		return []llmrun.Message{{Role: "user", Content: o.text(field)}}
	}
	for _, item := range o.list(field) {
		switch kind := item.text("type"); kind {
		case "", "message":
			messages = append(messages, llmrun.Message{Role: readRole(item), Content: openAIContent(item)})
		case "reasoning": // the thoughts of an earlier answer, which templates drop
		case "function_call":
			call := llmrun.ToolCall{ID: item.text("call_id"), Name: item.text("name"), Arguments: item.text("arguments")}
			if !call.Complete() {
				item.fail("arguments", "must be the text of a JSON object")
			}
			if n := len(messages); n > 0 && messages[n-1].Role == "assistant" { // an answer is one message
				messages[n-1].ToolCalls = append(messages[n-1].ToolCalls, call)
			} else {
				messages = append(messages, llmrun.Message{Role: "assistant", ToolCalls: []llmrun.ToolCall{call}})
			}
		case "function_call_output":
			messages = append(messages, llmrun.Message{Role: "tool", ToolCallID: item.text("call_id"), Content: readParts(item, "output")})
		default:
			item.fail("type", fmt.Sprintf("is %q; it must be message, reasoning, function_call or function_call_output", shorten(kind)))
		}
	}
	if len(messages) == 0 {
		o.fail(field, "must be a text, or a list with at least one message")
	}
	return messages
}

// conversation returns the messages before the answer.
func (r *responseRequest) conversation() (all []llmrun.Message, err error) {
	if r.settings.Instructions != nil { // those of the response before do not count
		all = append(all, llmrun.Message{Role: "system", Content: *r.settings.Instructions})
	}
	if r.settings.Previous != nil {
		earlier, ok := r.server.responses.find(*r.settings.Previous)
		if !ok {
			return nil, &problem{
				status: http.StatusBadRequest, param: "previous_response_id", code: "previous_response_not_found",
				message: fmt.Sprintf("there is no response %q any more: the server remembers the last %d, until it ends; send the conversation as input", shorten(*r.settings.Previous), maxResponses),
			}
		}
		r.earlier = earlier.messages
	}
	all = slices.Concat(all, r.earlier, r.messages)
	linkResults(all)
	return all, nil
}

// responseRun is a response while it is generated.
type responseRun struct {
	*responseRequest
	u        *use
	stream   *stream // nil without one
	response response
	sequence int  // of the next event
	open     bool // the last item has not ended
	got      llmrun.Answer
	kept     tokenRoom
}

func (r *responseRequest) run(ctx context.Context, w http.ResponseWriter, u *use) error {
	if err := u.prepare(&r.options.Chat, r.thinking, r.sampling.bias); err != nil {
		return err
	}
	messages, err := r.conversation()
	if err != nil {
		return err
	}
	if r.truncate {
		messages = dropOldest(u.engine, messages, r.options.Chat)
	}
	g := &responseRun{responseRequest: r, u: u, kept: tokenRoom{u: u}, response: response{
		ID: "resp_" + r.server.id(), Object: "response", Created: r.server.now().Unix(), Status: "in_progress",
		responseSettings: r.settings, Output: []*responseItem{},
	}}
	g.response.Model = u.name
	r.options.Sampling = r.sampling.over(u.engine.DefaultSampling())
	if r.stream {
		g.stream = newStream(w, true)
		r.options.OnPrefill = g.stream.reading
	}
	if r.prompt == nil {
		r.prompt = chatPrompt(messages)
	}
	took, err := u.generate(ctx, r.prompt, r.options, g.piece)
	if err == nil {
		err = g.finish(&took)
	}
	if err != nil {
		return g.fail(ctx, err)
	}
	if r.settings.Store {
		r.server.responses.add(&g.response, append(slices.Concat(r.earlier, r.messages), g.got.Message()))
	}
	if g.stream == nil {
		writeJSON(w, http.StatusOK, &g.response)
	}
	return nil
}

// send sends an event, if the response is streamed.
func (g *responseRun) send(e responseEvent) error {
	if g.stream == nil {
		return nil
	}
	e.Sequence = g.sequence
	g.sequence++
	return g.stream.send(&e)
}

// begin sends the events before the first item.
func (g *responseRun) begin() error {
	if g.sequence > 0 {
		return nil
	}
	if err := g.send(responseEvent{Type: "response.created", Response: &g.response}); err != nil {
		return err
	}
	return g.send(responseEvent{Type: "response.in_progress", Response: &g.response})
}

// piece adds a piece of the answer.
func (g *responseRun) piece(p *llmrun.Piece) error {
	if err := g.begin(); err != nil {
		return err
	}
	g.got.Add(p)
	if p.Kind == llmrun.KindToolCall {
		return g.callPiece(p)
	}
	probable := g.logProbs && p.ID >= 0 && p.Answers()
	if p.Text == "" && !probable {
		return nil
	}
	kind, event := "reasoning", responseEvent{Type: "response.reasoning_text.delta", Delta: &p.Text}
	if p.Answers() {
		kind, event.Type, event.LogProbs = "message", "response.output_text.delta", &[]chatLogProb{}
	}
	item, err := g.item(kind)
	if err != nil {
		return err
	}
	item.text.WriteString(p.Text)
	var entry *chatLogProb
	if probable {
		entry = g.u.logProb(p)
		*event.LogProbs = append(*event.LogProbs, *entry)
		*item.Content[0].LogProbs = append(*item.Content[0].LogProbs, *entry)
	}
	if err := g.sendPart(event); err != nil {
		return err
	}
	return g.kept.keep(entry)
}

// callPiece adds a piece of a call.
func (g *responseRun) callPiece(p *llmrun.Piece) error {
	if p.Call != nil {
		item := &responseItem{
			ID: "fc_" + g.server.id(), Type: "function_call", Status: "in_progress", CallID: p.Call.ID, Name: p.Call.Name, Arguments: new(string),
		}
		if err := g.add(item); err != nil {
			return err
		}
	}
	if !g.open || g.last().Type != "function_call" {
		return nil // what a model says to tools without a call
	}
	g.last().text.WriteString(p.Text)
	if p.Text != "" {
		if err := g.sendOfItem(responseEvent{Type: "response.function_call_arguments.delta", Delta: &p.Text}); err != nil {
			return err
		}
	}
	if p.CallEnds {
		return g.closeItem("completed")
	}
	return nil
}

func (g *responseRun) last() *responseItem { return g.response.Output[len(g.response.Output)-1] }

// sendOfItem sends an event that is about the last item.
func (g *responseRun) sendOfItem(e responseEvent) error {
	last := len(g.response.Output) - 1
	e.Output, e.ItemID = &last, g.last().ID
	return g.send(e)
}

// sendPart sends an event that is about the text of the last item.
func (g *responseRun) sendPart(e responseEvent) error {
	e.Content = new(int)
	return g.sendOfItem(e)
}

// item returns the open item, which is a message or holds thoughts. It begins one if that is another kind.
func (g *responseRun) item(kind string) (*responseItem, error) {
	if g.open && g.last().Type == kind {
		return g.last(), nil
	}
	item := &responseItem{Type: kind, Status: "in_progress", Content: []*responsePart{}}
	part := &responsePart{Type: "reasoning_text"}
	if kind == "message" {
		item.ID, item.Role = "msg_"+g.server.id(), "assistant"
		part.Type, part.Annotations, part.LogProbs = "output_text", &[]any{}, &[]chatLogProb{}
	} else {
		item.ID, item.Summary = "rs_"+g.server.id(), &[]any{}
	}
	if err := g.add(item); err != nil {
		return nil, err
	}
	item.Content = []*responsePart{part}
	return item, g.sendPart(responseEvent{Type: "response.content_part.added", Part: part})
}

// add begins an item.
func (g *responseRun) add(item *responseItem) error {
	if err := g.closeItem("completed"); err != nil {
		return err
	}
	g.response.Output = append(g.response.Output, item)
	g.open = true
	last := len(g.response.Output) - 1
	return g.send(responseEvent{Type: "response.output_item.added", Output: &last, Item: item})
}

// closeItem ends the open item, if there is one.
func (g *responseRun) closeItem(status string) error {
	if !g.open {
		return nil
	}
	g.open = false
	item, text := g.last(), g.last().text.String()
	item.Status = status
	var err error
	if item.Arguments != nil {
		item.Arguments = &text
		err = g.sendOfItem(responseEvent{Type: "response.function_call_arguments.done", Arguments: &text})
	} else {
		part := item.Content[0]
		part.Text = text
		done := responseEvent{Type: "response.reasoning_text.done", Text: &text}
		if part.LogProbs != nil {
			done.Type, done.LogProbs = "response.output_text.done", part.LogProbs
		}
		if err = g.sendPart(done); err == nil {
			err = g.sendPart(responseEvent{Type: "response.content_part.done", Part: part})
		}
	}
	if err != nil {
		return err
	}
	last := len(g.response.Output) - 1
	return g.send(responseEvent{Type: "response.output_item.done", Output: &last, Item: item})
}

// finish ends the response.
func (g *responseRun) finish(took *spent) error {
	status := "completed"
	if *finishReason(took) == "length" {
		status, g.response.Incomplete = "incomplete", &responseIncomplete{"max_output_tokens"}
	}
	if err := g.begin(); err != nil {
		return err
	}
	if !slices.ContainsFunc(g.response.Output, func(i *responseItem) bool { return i.Type != "reasoning" }) {
		if _, err := g.item("message"); err != nil { // the model ended at once
			return err
		}
	}
	if err := g.closeItem(status); err != nil {
		return err
	}
	at := g.server.now().Unix()
	g.response.Status, g.response.Completed = status, &at
	g.response.Usage = &responseUsage{
		took.PromptTokens,
		openAIPromptTokens{took.ReusedTokens},
		took.GeneratedTokens,
		openAICompletionTokens{took.thoughts},
		took.PromptTokens + took.GeneratedTokens,
	}
	return g.send(responseEvent{Type: "response." + status, Response: &g.response})
}

// fail ends the response with an error.
func (g *responseRun) fail(ctx context.Context, err error) error {
	return g.server.breakOff(ctx, g.stream, err, func(p *problem) any {
		g.response.Status, g.response.Error = "failed", &responseError{"server_error", p.message}
		return &responseEvent{Type: "response.failed", Sequence: g.sequence, Response: &g.response}
	})
}
