package serve

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/llmrun/llmrun"
)

// ollamaVersion is the version of ollama with whose API and own tests the server is tried.
const ollamaVersion = "0.17.4"

// ollama is the dialect of ollama's API.
type ollama struct{}

func (ollama) errorBody(p *problem) any {
	return struct {
		Error string `json:"error"`
	}{p.message}
}

func (d ollama) refuse(w http.ResponseWriter, p *problem) { writeProblem(w, p, d.errorBody(p)) }

func (s *Server) routeOllama() {
	d := ollama{}
	s.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		if asksPage(r) {
			s.servePage(w, r, "index.html")
			return
		}
		w.Header().Add("Vary", "Accept")
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("Ollama is running")) // the line by which its clients know a server
	})
	s.mux.HandleFunc("GET /api/version", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"version": s.options.Version})
	})
	s.mux.HandleFunc("GET /api/tags", s.listOllama)
	s.mux.HandleFunc("GET /api/ps", s.listOpen)
	s.mux.HandleFunc("POST /api/show", s.showOllama)
	s.mux.HandleFunc("POST /api/copy", s.manage(func(_ *http.Request, o *object) func() error {
		source, name := o.text("source"), readNewName(o)
		return func() error { return s.models.copy(source, name) }
	}))
	s.mux.HandleFunc("DELETE /api/delete", s.manage(func(r *http.Request, o *object) func() error {
		name := ollamaName(o)
		return func() error { return s.delete(r, name) }
	}))
	s.mux.HandleFunc("POST /api/generate", s.handle(d, s.readOllamaGenerate))
	s.mux.HandleFunc("POST /api/chat", s.handle(d, s.readOllamaChat))
	s.mux.HandleFunc("POST /api/pull", s.pull)
	for _, path := range []string{"POST /api/push", "POST /api/create"} {
		s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			d.refuse(w, &problem{status: http.StatusNotImplemented, message: "the server does not do " + r.URL.Path + " yet: it generates text with models that are complete"})
		})
	}
}

// ollamaDetails describe a model.
type ollamaDetails struct {
	ParentModel  string   `json:"parent_model"`
	Format       string   `json:"format"`
	Family       string   `json:"family"`
	Families     []string `json:"families"`
	Parameters   string   `json:"parameter_size"`
	Quantization string   `json:"quantization_level"`
}

// ollamaModel is a model in listings.
type ollamaModel struct {
	Name     string        `json:"name"`
	Model    string        `json:"model"`
	Modified *time.Time    `json:"modified_at,omitempty"`
	Size     int64         `json:"size"`
	Digest   string        `json:"digest"`
	Details  ollamaDetails `json:"details"`
	// Of models that are open.
	Expires *time.Time `json:"expires_at,omitempty"`
	VRAM    *int64     `json:"size_vram,omitempty"`
	Context int        `json:"context_length,omitempty"`
}

// modified returns the time that listings show.
func (s *Server) modified(e *entry) time.Time {
	if e.Modified.IsZero() {
		return s.made
	}
	return e.Modified
}

func (d *description) details() ollamaDetails {
	family := d.info.Family
	return ollamaDetails{
		Format: d.info.Format, Family: family, Families: []string{family},
		Parameters: countName(d.info.Parameters), Quantization: d.quantization(),
	}
}

// quantization returns the most frequent type of the matrices.
func (d *description) quantization() (name string) {
	most := 0
	for kind, n := range d.info.TensorTypes {
		if kind != "F32" && (n > most || n == most && kind < name) { // vectors are F32 in every model
			name, most = kind, n
		}
	}
	if most == 0 {
		return "F32"
	}
	return name
}

// countName writes a number of parameters as model names have it: 7.2B, 15M.
func countName(n int64) string {
	switch {
	case n >= 1e9:
		return strconv.FormatFloat(float64(n)/1e9, 'f', 1, 64) + "B"
	case n >= 1e6:
		return strconv.FormatFloat(float64(n)/1e6, 'f', 2, 64) + "M"
	}
	return strconv.FormatFloat(float64(n)/1e3, 'f', 2, 64) + "K"
}

// listed returns a model for listings. One whose file cannot be read is listed without details, and the others with theirs: its error
// is the answer to those who use it.
func (s *Server) listed(o offered) (ollamaModel, description) {
	d, _ := o.describe()
	return ollamaModel{Name: o.name, Model: o.name, Size: d.info.WeightBytes, Digest: d.digest, Details: d.details()}, d
}

type ollamaModels struct {
	Models []ollamaModel `json:"models"`
}

func (s *Server) listOllama(w http.ResponseWriter, _ *http.Request) {
	list := ollamaModels{[]ollamaModel{}}
	for _, o := range s.models.offered() {
		m, _ := s.listed(o)
		at := s.modified(o.entry)
		m.Modified = &at
		list.Models = append(list.Models, m)
	}
	writeJSON(w, http.StatusOK, list)
}

// forEver is how far in the future the end of a model is that stays open, in the API's listing.
const forEver = 100 * 365 * 24 * time.Hour

func (s *Server) listOpen(w http.ResponseWriter, _ *http.Request) {
	list := ollamaModels{[]ollamaModel{}}
	open, _ := s.models.loaded()
	for _, l := range open {
		m, d := s.listed(offered{name: l.Name, entry: l.entry})
		until := l.until
		if until.IsZero() {
			until = s.now().Add(forEver)
		}
		m.Size, m.Expires, m.VRAM, m.Context = l.memory, &until, new(int64), d.info.MaxContext
		list.Models = append(list.Models, m)
	}
	writeJSON(w, http.StatusOK, list)
}

// ollamaRequest is a request for an answer.
type ollamaRequest struct {
	server   *Server
	chat     bool
	stream   bool
	load     bool // there is nothing to answer: the model is opened, or closed
	unload   bool
	prompt   prompt
	options  llmrun.GenerateOptions
	thinking string // the level that the request wants
	sampling sampling
	logProbs bool
	// prepare, if set, completes the request when its model is open.
	prepare func(u *use) error
	// context, if set, returns the tokens of the conversation when the answer has ended.
	context func() []int32
}

// readOllama reads the fields that both endpoints have.
func (s *Server) readOllama(o *object) (*ollamaRequest, *job) {
	r := &ollamaRequest{server: s, stream: o.boolean("stream", true)}
	j := &job{model: ollamaName(o), keepAlive: readKeepAlive(o), run: r.run}
	r.unload = j.keepAlive != nil && *j.keepAlive == 0
	in := o.inner("options")
	// -1 and -2 mean until the end of the answer or of the context
	predict, window := in.whole("num_predict", -2, maxTokens), in.whole("num_ctx", 1, maxTokens)
	switch {
	case predict != nil && *predict > 0:
		r.options.MaxTokens = int(*predict)
	case predict == nil && window != nil: // a session grows as far as the model goes; an answer without an end would fill all of it
		r.options.MaxTokens = int(*window)
	}
	r.options.Stop = readStops(in)
	r.sampling = sampling{
		temperature: in.number("temperature", 0, 100), topP: in.number("top_p", 0, 1), minP: in.number("min_p", 0, 1),
		typicalP: in.number("typical_p", 0, 1), repeatPenalty: in.number("repeat_penalty", 0, 100),
		presencePenalty: in.number("presence_penalty", -100, 100), frequencyP: in.number("frequency_penalty", -100, 100),
		topK: readTopK(in), repeatLastN: in.whole("repeat_last_n", -1, maxTokens),
		seed: in.whole("seed", math.MinInt64, math.MaxInt64),
	}
	if r.sampling.seed != nil && *r.sampling.seed == -1 { // a random one
		r.sampling.seed = nil
	}
	r.logProbs = o.boolean("logprobs", false)
	if top := o.whole("top_logprobs", 0, maxTopLogProbs); top != nil && r.logProbs {
		r.options.TopLogProbs = int(*top)
	}
	r.options.LogProbs = r.logProbs
	readOllamaFormat(o, &r.options)
	j.format = o.path + "format"
	r.thinking = readThink(o)
	return r, j
}

// readKeepAlive reads a duration: a text such as 5m, or a number of seconds. Negative means for ever.
func readKeepAlive(o *object) *time.Duration {
	const name = "keep_alive"
	if !o.has(name) {
		return nil
	}
	var keep time.Duration
	if o.kind(name) == isText {
		var err error
		if keep, err = ParseKeepAlive(o.text(name)); err != nil {
			o.fail(name, err.Error())
		}
	} else if seconds := o.number(name, -math.MaxInt32, math.MaxInt32); seconds != nil {
		keep = secondsOf(float64(*seconds))
	}
	return &keep
}

// ParseKeepAlive returns the time that a text says: a duration such as 5m, or a number of seconds.
func ParseKeepAlive(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if seconds, failed := strconv.ParseFloat(text, 64); err != nil && failed == nil {
		d, err = secondsOf(seconds), nil
	}
	if err != nil {
		return 0, errors.New("must be a duration such as 5m, or a number of seconds")
	}
	return d, nil
}

func secondsOf(x float64) time.Duration {
	const most = 1e9
	return time.Duration(min(max(x, -most), most) * float64(time.Second))
}

func (s *Server) readOllamaChat(o *object) *job {
	_, j := s.readOllamaChatRequest(o)
	return j
}

func (s *Server) readOllamaChatRequest(o *object) (*ollamaRequest, *job) {
	r, j := s.readOllama(o)
	r.chat = true
	messages := readMessages(o, func(m *object) string {
		m.refuse("images", "is not supported: the models read text")
		return m.text("content")
	})
	r.options.Chat.Tools = readTools(o)
	r.load, r.prompt, j.named = len(messages) == 0, chatPrompt(messages), true
	if o.boolean("truncate", true) {
		r.prepare = func(u *use) error {
			r.prompt = chatPrompt(dropOldest(u.engine, messages, r.options.Chat))
			return nil
		}
	}
	return r, j
}

// ollamaMessage is the message of a chat's answer.
type ollamaMessage struct {
	Role      string           `json:"role"`
	Content   string           `json:"content"`
	Thinking  string           `json:"thinking,omitempty"`
	ToolCalls []ollamaToolCall `json:"tool_calls,omitempty"`
}

// ollamaAnswer is an answer, or a part of one.
type ollamaAnswer struct {
	Model    string         `json:"model"`
	Created  time.Time      `json:"created_at"`
	Message  *ollamaMessage `json:"message,omitempty"`  // of chat
	Response *string        `json:"response,omitempty"` // of generate
	Thinking string         `json:"thinking,omitempty"` // of generate
	Done     bool           `json:"done"`
	Reason   string         `json:"done_reason,omitempty"`
	LogProbs []ollamaToken  `json:"logprobs,omitempty"`
	Context  []int32        `json:"context,omitempty"` // of generate
	*ollamaTimes
}

// ollamaToken is a token of an answer with its probability.
type ollamaToken struct {
	chatToken
	Top []chatToken `json:"top_logprobs,omitempty"`
}

// ollamaTimes are numbers of tokens, and times in nanoseconds.
type ollamaTimes struct {
	Total          time.Duration `json:"total_duration"`
	Load           time.Duration `json:"load_duration"`
	PromptCount    int           `json:"prompt_eval_count"`
	CachedCount    int           `json:"prompt_cached_count"` // of these, tokens that were not computed again; the API has no field for them
	PromptDuration time.Duration `json:"prompt_eval_duration"`
	Count          int           `json:"eval_count"`
	DecodeDuration time.Duration `json:"eval_duration"`
}

// part returns a part of an answer.
func (r *ollamaRequest) part(u *use, text, thinking string) *ollamaAnswer {
	a := &ollamaAnswer{Model: u.name, Created: r.server.now().UTC()}
	if r.chat {
		a.Message = &ollamaMessage{Role: "assistant", Content: text, Thinking: thinking}
	} else {
		a.Response, a.Thinking = &text, thinking
	}
	return a
}

// piece returns a piece as a part of an answer, nil if it has nothing for the client. A call is sent when it is complete; sent are those
// before.
func (r *ollamaRequest) piece(u *use, p *llmrun.Piece, got *llmrun.Answer, sent *int) *ollamaAnswer {
	switch {
	case p.Kind == llmrun.KindToolCall && p.CallEnds && r.chat:
		part := r.part(u, "", "")
		part.Message.ToolCalls = ollamaToolCalls(got, *sent)
		*sent = len(got.ToolCalls())
		if len(part.Message.ToolCalls) > 0 {
			return part
		}
	case p.Kind == llmrun.KindToolCall || p.Text == "":
	case p.Kind == llmrun.KindThinking:
		return r.part(u, "", p.Text)
	default:
		return r.part(u, p.Text, "")
	}
	return nil
}

func (r *ollamaRequest) run(ctx context.Context, w http.ResponseWriter, u *use) error {
	if r.load {
		a := r.part(u, "", "")
		a.Done, a.Reason = true, "load"
		if r.unload {
			a.Reason = "unload"
		}
		writeJSON(w, http.StatusOK, a)
		return nil
	}
	var err error
	if r.options.Chat.Thinking, err = checkThink(u, r.thinking); err != nil {
		return err
	}
	if r.prepare != nil {
		if err := r.prepare(u); err != nil {
			return err
		}
	}
	r.options.Sampling = r.sampling.over(u.engine.DefaultSampling())
	t := newStream(w, false)
	if r.stream {
		r.options.OnPrefill = func(int, int) {
			if t.quiet() {
				_ = t.send(r.part(u, "", "")) // if the client has left, its request ends by its context
			}
		}
	}
	var got llmrun.Answer
	var tokens []ollamaToken
	kept := tokenRoom{u: u}
	sent := 0 // calls
	took, err := u.generate(ctx, r.prompt, r.options, func(p *llmrun.Piece) error {
		got.Add(p)
		var entry *chatLogProb
		if r.logProbs && p.ID >= 0 {
			entry = u.logProb(p)
			tokens = append(tokens, ollamaToken{entry.chatToken, entry.Top})
		}
		if !r.stream {
			return kept.keep(entry)
		}
		part := r.piece(u, p, &got, &sent)
		if part == nil && len(tokens) == 0 {
			return nil
		}
		if part == nil {
			part = r.part(u, "", "")
		}
		part.LogProbs, tokens = tokens, nil
		return t.send(part)
	})
	if err != nil {
		return r.server.breakOff(ctx, t, err, ollama{}.errorBody)
	}
	last := r.part(u, "", "")
	if !r.stream {
		last = r.part(u, got.Text(), got.Thinking())
		if r.chat {
			last.Message.ToolCalls = ollamaToolCalls(&got, 0)
		}
	}
	last.Done, last.Reason, last.LogProbs = true, *finishReason(&took), tokens
	if r.context != nil {
		last.Context = r.context()
	}
	last.ollamaTimes = &ollamaTimes{
		time.Since(u.start), u.load, took.PromptTokens, took.ReusedTokens, took.Prefill, took.GeneratedTokens, took.Decode,
	}
	if r.stream {
		_ = t.send(last) // fails if the client has left
		return nil
	}
	writeJSON(w, http.StatusOK, last)
	return nil
}
