package serve

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/llmrun/llmrun"
)

// openAI is the dialect of OpenAI's API.
type openAI struct{}

// openAIError is the error object of the API.
type openAIError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

type openAIErrorBody struct {
	Error openAIError `json:"error"`
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// errorBody returns the body of an error.
func (openAI) errorBody(p *problem) any {
	kind := "invalid_request_error"
	switch {
	case p.status == http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case p.status == http.StatusUnauthorized:
		kind = "authentication_error"
	case p.status == http.StatusForbidden:
		kind = "permission_error"
	case p.status >= http.StatusInternalServerError:
		kind = "server_error"
	}
	return openAIErrorBody{openAIError{p.message, kind, optional(p.param), optional(p.code)}}
}

func (d openAI) refuse(w http.ResponseWriter, p *problem) { writeProblem(w, p, d.errorBody(p)) }

func (s *Server) routeOpenAI() {
	d := openAI{}
	s.mux.HandleFunc("GET /v1/models", s.listOpenAI)
	s.mux.HandleFunc("GET /v1/models/{name...}", s.showOpenAI)
	s.mux.HandleFunc("POST /v1/chat/completions", s.handle(d, s.readChat))
	s.mux.HandleFunc("POST /v1/completions", s.handle(d, s.readCompletion))
	s.mux.HandleFunc("POST /v1/responses", s.handle(d, s.readResponse))
	s.mux.HandleFunc("GET /v1/responses/{id}", s.showResponse)
	s.mux.HandleFunc("DELETE /v1/responses/{id}", s.deleteResponse)
	s.routeEmbeddings()
}

// openAIModel is a model in listings.
type openAIModel struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	Parent  string `json:"parent,omitempty"` // the model of an adapter
}

func (s *Server) openAIModel(o offered) openAIModel {
	m := openAIModel{o.name, "model", s.modified(o.entry).Unix(), "llmrun", ""}
	if o.adapter != "" {
		m.Parent = o.Name
	}
	return m
}

func (s *Server) listOpenAI(w http.ResponseWriter, r *http.Request) {
	if asksAnthropic(r) {
		writeJSON(w, http.StatusOK, s.anthropicModels())
		return
	}
	list := []openAIModel{}
	for _, o := range s.models.offered() {
		list = append(list, s.openAIModel(o))
	}
	writeJSON(w, http.StatusOK, struct {
		Object string        `json:"object"`
		Data   []openAIModel `json:"data"`
	}{"list", list})
}

func (s *Server) showOpenAI(w http.ResponseWriter, r *http.Request) {
	o, err := s.models.find(r.PathValue("name"))
	switch {
	case err != nil:
		dialectOf(r).refuse(w, s.problemOf(r.Context(), err))
	case asksAnthropic(r):
		writeJSON(w, http.StatusOK, s.anthropicModel(o))
	default:
		writeJSON(w, http.StatusOK, s.openAIModel(o))
	}
}

// openAIRequest holds what chat and text completions have in common.
type openAIRequest struct {
	server       *Server
	model        string
	stream       bool
	includeUsage bool
	n            int
	logProbs     bool
	top          int
	options      llmrun.GenerateOptions // without the sampling parameters
	sampling     sampling
	format       string // the field with the schema that the answer is held to
}

// maxChoices bounds n.
const maxChoices = 16

// maxTokens bounds a number of tokens in requests; no context is longer.
const maxTokens = 1 << 24

// readOpenAI reads the fields that both endpoints have.
func (s *Server) readOpenAI(o *object) *openAIRequest {
	r := &openAIRequest{server: s, model: o.text("model"), stream: o.boolean("stream", false), n: 1}
	r.includeUsage = o.inner("stream_options").boolean("include_usage", false)
	if n := o.whole("n", 1, maxChoices); n != nil {
		r.n = int(*n)
	}
	for _, name := range []string{"max_tokens", "max_completion_tokens"} { // the second is the newer name, and wins
		if n := o.whole(name, 1, maxTokens); n != nil {
			r.options.MaxTokens = int(*n)
		}
	}
	r.options.Stop = readStops(o)
	if r.sampling = readSampling(o); r.sampling.seed == nil && r.stream && r.n > 1 {
		seed := rand.Int64N(1 << 53) // a choice that is generated again has the text that the client began to read
		r.sampling.seed = &seed
	}
	return r
}

// readSampling reads the sampling parameters, of which the newer endpoints document a few.
func readSampling(o *object) sampling {
	return sampling{
		temperature: o.number("temperature", 0, 100), topP: o.number("top_p", 0, 1), minP: o.number("min_p", 0, 1),
		presencePenalty: o.number("presence_penalty", -2, 2), frequencyP: o.number("frequency_penalty", -2, 2),
		repeatPenalty: o.number("repetition_penalty", 0.01, 100),
		topK:          readTopK(o), seed: o.whole("seed", math.MinInt64, math.MaxInt64),
		bias: readBias(o),
	}
}

// readTopK reads top_k. 0 means all tokens, and so does -1 for clients of other servers.
func readTopK(o *object) *int64 {
	k := o.whole("top_k", -1, math.MaxInt32)
	if k != nil {
		*k = max(*k, 0)
	}
	return k
}

// readBias reads logit_bias, whose names are token ids. At -100 a token is forbidden, as the API promises.
func readBias(o *object) map[int32]float32 {
	inner := o.inner("logit_bias")
	if len(inner.fields) == 0 {
		return nil
	}
	bias := map[int32]float32{}
	for _, name := range slices.Sorted(maps.Keys(inner.fields)) {
		id, err := strconv.ParseInt(name, 10, 32)
		if err != nil || id < 0 {
			inner.fail(name, "must be a token id")
			return nil
		}
		if x := inner.number(name, -100, 100); x != nil {
			bias[int32(id)] = *x
			if *x == -100 {
				bias[int32(id)] = float32(math.Inf(-1))
			}
		}
	}
	return bias
}

// checkBias refuses ids that the model does not have.
func checkBias(bias map[int32]float32, vocabulary int) error {
	for id := range bias {
		if int(id) >= vocabulary {
			return &fieldError{fmt.Sprintf("logit_bias.%d", id), fmt.Sprintf("is not a token of the model, which has %d", vocabulary)}
		}
	}
	return nil
}

// generateOptions returns the options of the choice with an index.
func (r *openAIRequest) generateOptions(u *use, index int) llmrun.GenerateOptions {
	o := r.options
	o.Sampling = r.sampling.over(u.engine.DefaultSampling())
	o.Sampling.Seed = r.sampling.seedOf(index)
	o.LogProbs, o.TopLogProbs = r.logProbs, r.top
	return o
}

// openAIUsage counts the tokens of a request.
type openAIUsage struct {
	Prompt            int                    `json:"prompt_tokens"`
	Completion        int                    `json:"completion_tokens"`
	Total             int                    `json:"total_tokens"`
	PromptDetails     openAIPromptTokens     `json:"prompt_tokens_details"`
	CompletionDetails openAICompletionTokens `json:"completion_tokens_details"`
}

type openAIPromptTokens struct {
	Cached int `json:"cached_tokens"`
}

type openAICompletionTokens struct {
	Reasoning int `json:"reasoning_tokens"`
}

// add counts a choice. The choices of one prompt share it, so only the first counts it.
func (u *openAIUsage) add(s *spent, first bool) {
	if first {
		u.Prompt += s.PromptTokens
		u.PromptDetails.Cached += s.ReusedTokens
	}
	u.CompletionDetails.Reasoning += s.thoughts
	u.Completion += s.GeneratedTokens
	u.Total = u.Prompt + u.Completion
}

// finishReason names why an answer ended.
func finishReason(s *spent) *string {
	reason := "stop"
	if s.StopReason == llmrun.StopLength || s.StopReason == llmrun.StopContext {
		reason = "length"
	}
	return &reason
}

// jsonLogProb returns a logarithm that JSON can hold.
func jsonLogProb(x float32) float32 {
	const least = -9999
	return max(x, least) // also for -Inf
}

// openAIContent reads the content of a message. Answers that are calls have none, and results of tools may have none.
func openAIContent(m *object) string {
	role := m.text("role")
	if role != "assistant" && role != "tool" && role != "function" {
		m.need("content")
	}
	text := readParts(m, "content")
	if role == "assistant" && text == "" {
		text = m.text("refusal") // an earlier answer, as it was returned
	}
	return text
}

// readParts reads a text, or a list of parts of which all are texts.
func readParts(m *object, field string) string {
	if m.kind(field) != isList {
		return m.text(field)
	}
	var text strings.Builder
	for _, part := range m.list(field) {
		switch kind := part.text("type"); kind {
		case "text", "input_text", "output_text":
			text.WriteString(part.text("text"))
		case "refusal": // of an earlier answer
			text.WriteString(part.text("refusal"))
		default:
			part.fail("type", fmt.Sprintf("is %q; only text is supported", shorten(kind)))
		}
	}
	return text.String()
}
