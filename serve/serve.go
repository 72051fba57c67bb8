package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmrun/llmrun"
)

// Options configure a server. The zero value of a field means its default.
type Options struct {
	Models []Model // at least one
	// RAM is the memory limit of the program, as [llmrun.MemoryOptions] has it. With it, one model is open at a time. 0 means
	// that each model decides by the memory that is available when it is opened.
	RAM int64
	// KeepAlive is how long a model stays open without requests: 5 minutes by default, negative for ever. Requests of
	// ollama's API can set it for their model.
	KeepAlive time.Duration
	// Parallel is the number of requests that generate at the same time, 8 by default, and Queue the number of
	// those that wait, 64 by default. Further ones are refused.
	Parallel, Queue int
	// APIKeys are the keys of which requests must have one; none means that none is needed.
	APIKeys []string
	// AllowHosts are names of this machine in the Host header, besides localhost and all addresses.
	AllowHosts []string
	// AllowOrigins are origins of pages that may use the server, such as https://notes.example, besides those
	// of localhost and of some apps; "*" allows all pages of the internet that its user visits.
	AllowOrigins []string
	// MaxBody is the most bytes of a body, 4 MiB by default. With RAM it is at most a 128th of that, but at least 256 KiB.
	MaxBody int64
	// BodyTimeout is the time in which a body must arrive, and WriteTimeout that in which the client must take each part
	// of an answer; 30 seconds by default.
	BodyTimeout, WriteTimeout time.Duration
	// Version is what ollama's API reports: the version of ollama that the server answers like, because clients look for what it
	// has by its number, and some refuse old ones.
	Version string
	// Puller downloads models for clients on this machine, and for others if there are APIKeys. nil downloads none.
	Puller Puller
	// Logger receives a record for each request: method, path, status, model, numbers of tokens and times, and never texts. nil
	// logs nothing.
	Logger *slog.Logger
}

// withDefaults returns the options with the defaults.
func (o Options) withDefaults() (Options, error) {
	if len(o.Models) == 0 {
		return o, errors.New("the server has no model")
	}
	seen := map[string]bool{}
	for _, m := range o.Models {
		if m.Name == "" || seen[m.Name] {
			return o, fmt.Errorf("the name of a model must not be empty, and be given once: %q", m.Name)
		}
		seen[m.Name] = true
		for _, adapter := range m.adapters() {
			if name := m.adapted(adapter); seen[name] {
				return o, fmt.Errorf("two models have the name %q: an adapter is offered as MODEL:NAME", name)
			}
			seen[m.adapted(adapter)] = true
		}
	}
	for _, d := range []struct {
		field    *time.Duration
		fallback time.Duration
	}{{&o.KeepAlive, 5 * time.Minute}, {&o.BodyTimeout, 30 * time.Second}, {&o.WriteTimeout, 30 * time.Second}} {
		if *d.field == 0 {
			*d.field = d.fallback
		}
	}
	for _, n := range []struct {
		field    *int
		fallback int
	}{{&o.Parallel, 8}, {&o.Queue, 64}} {
		if *n.field <= 0 {
			*n.field = n.fallback
		}
	}
	if o.MaxBody <= 0 {
		o.MaxBody = 4 << 20
	}
	if o.Version == "" {
		o.Version = ollamaVersion
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// Server is an http.Handler that answers with models. Its methods are safe for concurrent use.
type Server struct {
	options Options
	guard   *guard
	queue   *queue
	models  *registry
	metrics *metrics
	// responses are those of OpenAI's newer endpoint that can be continued.
	responses *responses
	mux       *http.ServeMux
	pulling   chan struct{} // holds the download that is running
	bodies    atomic.Int64  // bytes that are reserved for bodies
	// bodyRoom is the most of them.
	bodyRoom int64
	parsing  sync.Mutex // held while a body is parsed
	made     time.Time

	ctx    context.Context // ends with Close, and with it all generations
	cancel context.CancelFunc

	now func() time.Time
	id  func() string // of an answer
}

// New returns a server. It opens no model before the first request.
func New(o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	room := o.bodyRoom()
	o.MaxBody = min(o.MaxBody, room)
	s := &Server{
		bodyRoom: room, options: o, guard: newGuard(&o), queue: newQueue(o.Parallel, o.Queue), metrics: &metrics{requests: map[string]int64{}},
		responses: &responses{room: room}, mux: http.NewServeMux(), now: time.Now, id: randomID, made: time.Now(), pulling: make(chan struct{}, 1),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.models = newRegistry(&o)
	s.route()
	if err := s.offerPulled(); err != nil {
		s.cancel()
		return nil, err
	}
	return s, nil
}

// maxConnections bounds the connections of NewHTTPServer: each takes some 10 KiB, also when it is idle.
const maxConnections = 300

// NewHTTPServer returns a server for a handler with limits for the size and the time of headers, for idle connections, and for
// their number: it closes those beyond 300.
func NewHTTPServer(h http.Handler) *http.Server {
	var open atomic.Int64
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ConnState: func(c net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				if open.Add(1) > maxConnections {
					_ = c.Close() // the client learns it from the next read
				}
			case http.StateClosed, http.StateHijacked:
				open.Add(-1)
			}
		},
	}
}

func (s *Server) route() {
	s.mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	s.mux.HandleFunc("GET /metrics", s.serveMetrics)
	s.routeOpenAI()
	s.routeAnthropic()
	s.routeOllama()
	s.routePage()
	s.mux.HandleFunc("/", s.refuseUnknown)
}

// refuseUnknown answers requests that no endpoint takes, and tells an endpoint with another method from none.
func (s *Server) refuseUnknown(w http.ResponseWriter, r *http.Request) {
	p := &problem{status: http.StatusNotFound, message: "there is no such endpoint", code: "unknown_url"}
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		other := *r
		other.Method = method
		if _, pattern := s.mux.Handler(&other); pattern != "/" {
			w.Header().Set("Allow", method)
			p = &problem{status: http.StatusMethodNotAllowed, message: "the endpoint takes " + method + " requests"}
		}
	}
	dialectOf(r).refuse(w, p)
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	out := &writer{ResponseWriter: w, timeout: s.options.WriteTimeout, unread: r.ContentLength != 0}
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(start.Add(s.options.BodyTimeout)) // a recorder of tests has no deadlines
	}
	record := &record{}
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), recordKey{}, record))
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	defer func() { s.log(r, out, record, time.Since(start)) }()
	out.Header().Set("X-Content-Type-Options", "nosniff")
	if len(r.TransferEncoding) > 0 {
		// The request may have had a length besides, which net/http drops. A proxy that believed it would take the rest of the
		// body for a request of its own, so nothing behind such a body is read, as RFC 9112, section 6.1, demands.
		out.Header().Set("Connection", "close")
	}
	if s.guard.admit(out, r) {
		s.mux.ServeHTTP(out, r.WithContext(ctx))
	}
}

// record collects what the log says about a request besides its head.
type record struct {
	model   string
	status  int // if it is not that of the response
	problem string

	tokens    sync.Mutex // guards the numbers of tokens, to which choices add at the same time
	prompt    int
	cached    int
	generated int
}

// count adds the tokens of a generation.
func (r *record) count(s llmrun.Stats) {
	r.tokens.Lock()
	defer r.tokens.Unlock()
	r.prompt += s.PromptTokens
	r.cached += s.ReusedTokens
	r.generated += s.GeneratedTokens
}

type recordKey struct{}

func recordOf(ctx context.Context) *record {
	if r, ok := ctx.Value(recordKey{}).(*record); ok {
		return r
	}
	return &record{}
}

// log writes a record of a request: no prompts, no answers, and no query, in which a client could put either.
func (s *Server) log(r *http.Request, w *writer, record *record, took time.Duration) {
	status := w.status
	if record.status != 0 {
		status = record.status
	}
	s.metrics.request(status)
	attributes := []slog.Attr{
		slog.String("method", r.Method), slog.String("path", shorten(r.URL.Path)), slog.Int("status", status),
		slog.Duration("took", took), slog.String("client", clientName(r)),
	}
	if record.model != "" {
		attributes = append(attributes, slog.String("model", record.model), slog.Int("prompt_tokens", record.prompt),
			slog.Int("cached_tokens", record.cached), slog.Int("generated_tokens", record.generated))
	}
	level := slog.LevelInfo
	if record.problem != "" && status >= http.StatusInternalServerError {
		level = slog.LevelError
		attributes = append(attributes, slog.String("error", record.problem))
	}
	s.options.Logger.LogAttrs(r.Context(), level, "request", attributes...)
}

// clientName names the client whose requests share a place in the queue: the address without the port.
func clientName(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// Drain refuses further requests with 503. Those that are in the server go on.
func (s *Server) Drain() { s.queue.close() }

// settleTime is how long Close waits for clients that take the end of their answers.
const settleTime = 5 * time.Second

// Close ends all generations and closes the models when their prompts are saved in the prefix cache. It may be called
// more than once.
func (s *Server) Close() error {
	s.Drain()
	s.cancel()
	s.models.settle(settleTime)
	return s.models.shutdown()
}
