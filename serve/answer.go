package serve

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"iter"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/llmrun/llmrun"
)

// randomID returns the unique part of an answer's id.
func randomID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// job is what a request asks for, after a dialect has read it.
type job struct {
	model string
	// keepAlive is how long the model stays open afterwards; nil = as the server's options say.
	keepAlive *time.Duration
	// named: the request is a conversation with one answer, which a session on flash can hold.
	named bool
	// plain: the model's own weights answer, without any of its adapters.
	plain bool
	// format is the field with the schema that the answer is held to.
	format string
	// run answers the request with the open model. After it has sent something it reports errors in its stream and
	// returns nil.
	run func(ctx context.Context, w http.ResponseWriter, u *use) error
}

// use is a request's hold of a model.
type use struct {
	offered
	server *Server
	engine *llmrun.Engine
	start  time.Time     // of the request
	load   time.Duration // until the model was open
	// session is the name of the session on flash that holds the conversation; "" = none.
	session string
	// generations that run; registry.mu guards it.
	generations int

	mu    sync.Mutex
	rooms []*llmrun.Room // that the request keeps results in, until it ends
}

// newRoom returns a room in the model's budget, which is closed when the request ends.
func (u *use) newRoom(what string) *llmrun.Room {
	room := u.engine.NewRoom(what)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.rooms = append(u.rooms, room)
	return room
}

// tokenRoom counts the probabilities of tokens that an answer, or an attempt to generate it, keeps until it is sent.
type tokenRoom struct {
	u    *use
	room *llmrun.Room // nil: no token has been kept
}

// keep counts a token that has been added to the list; nil is none. An entry takes perToken bytes while it is kept, and when the list becomes
// one text. After an error the answer may go on, when there is memory.
func (t *tokenRoom) keep(entry *chatLogProb) error {
	const perToken = 384
	if entry == nil {
		return nil
	}
	if t.room == nil {
		t.room = t.u.newRoom("a list of probabilities")
	}
	return t.room.Add(perToken * int64(1+len(entry.Top)))
}

// drop gives the memory back when an attempt has failed, whose tokens are not kept.
func (t *tokenRoom) drop(err error) {
	if err != nil && t.room != nil {
		t.room.Close()
	}
}

// end closes the rooms.
func (u *use) end() {
	for _, room := range u.rooms {
		room.Close()
	}
}

// whileStarved calls do, and again when there may be memory that it has lacked.
func (u *use) whileStarved(ctx context.Context, do func() error) error {
	err := do()
	for room := (kvRoom{models: u.server.models, model: u.entry}); errors.Is(err, llmrun.ErrBudget) && room.make(ctx); {
		err = do()
	}
	return err
}

// sessionHeader names a session on flash. It is saved behind the answer, and is the session that llmrun chat --session
// continues.
const sessionHeader = "X-Llmrun-Session"

// handle returns the handler of requests that a model answers.
func (s *Server) handle(d dialect, read func(o *object) *job) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if err := s.answer(ctx, w, r, read); err != nil {
			p := s.problemOf(ctx, err)
			record := recordOf(ctx)
			record.status, record.problem = p.status, p.message
			if p.status != statusLeft {
				d.refuse(w, p)
			}
		}
	}
}

// answer takes a request through the queue, reads it, and runs it with its model.
func (s *Server) answer(ctx context.Context, w http.ResponseWriter, r *http.Request, read func(o *object) *job) error {
	start := time.Now()
	ticket, err := s.queue.admit(clientName(r))
	if err != nil {
		return err
	}
	defer ticket.done()
	body, release, err := s.readBody(w, r)
	defer release()
	if err != nil {
		return err
	}
	var j *job
	if err := s.parse(body, func(o *object) { j = read(o) }); err != nil {
		return err
	}
	session := r.Header.Get(sessionHeader)
	if session != "" && !j.named {
		return badRequest(sessionHeader + " needs a conversation with one answer")
	}
	model, err := s.models.find(j.model)
	if err != nil {
		return err
	}
	if j.plain && model.adapter != "" {
		return &fieldError{"model", "is " + model.Name + " with an adapter, which only generates: this needs " + model.Name}
	}
	recordOf(ctx).model = model.name
	if err := ticket.wait(ctx); err != nil {
		return err
	}
	asked := time.Now()
	engine, err := s.models.use(ctx, model.entry)
	if err != nil {
		return err
	}
	defer s.models.release(model.entry)
	if j.keepAlive != nil {
		s.models.setKeepAlive(model.entry, *j.keepAlive)
	}
	u := &use{offered: model, server: s, engine: engine, start: start, load: time.Since(asked), session: session}
	defer u.end()
	err = j.run(ctx, w, u)
	return refusedFormat(err, j.format)
}

// prompt begins a generation in an empty session.
type prompt func(ctx context.Context, s *llmrun.Session, o llmrun.GenerateOptions) iter.Seq2[llmrun.Piece, error]

func chatPrompt(messages []llmrun.Message) prompt {
	return func(ctx context.Context, s *llmrun.Session, o llmrun.GenerateOptions) iter.Seq2[llmrun.Piece, error] {
		return s.ChatMessages(ctx, messages, o)
	}
}

// textPrompt continues a text. Its author writes the marks of turns, if any, so they are special tokens.
func textPrompt(text string) prompt {
	return func(ctx context.Context, s *llmrun.Session, o llmrun.GenerateOptions) iter.Seq2[llmrun.Piece, error] {
		o.ParseSpecial = true
		return s.Generate(ctx, text, o)
	}
}

func idsPrompt(ids []int32) prompt {
	return func(ctx context.Context, s *llmrun.Session, o llmrun.GenerateOptions) iter.Seq2[llmrun.Piece, error] {
		return s.GenerateIDs(ctx, ids, o)
	}
}

// spent is what an answer took.
type spent struct {
	llmrun.Stats
	thoughts int // tokens, of Stats.GeneratedTokens
}

// generate runs one generation and calls each with its pieces, until each returns an error. An answer for which there is no memory is
// generated again when there may be some. If it has begun, it has the same seed, and each does not get the same pieces twice.
func (u *use) generate(ctx context.Context, p prompt, o llmrun.GenerateOptions, each func(*llmrun.Piece) error) (spent, error) {
	thoughts, given, repeated := 0, 0, 0
	var counted llmrun.Stats
	count := func(s *llmrun.Session, p *llmrun.Piece) error {
		if repeated < given {
			repeated++
			return nil
		}
		given, repeated = given+1, repeated+1
		if p.Kind == llmrun.KindThinking && p.ID >= 0 {
			thoughts++
		}
		if p.ID >= 0 {
			now := s.Stats()
			now.GeneratedTokens = counted.GeneratedTokens + 1 // the session has them at the end
			u.server.metrics.count(&counted, &now)
		}
		return each(p)
	}
	defer u.server.models.begin(u)()
	var stats llmrun.Stats
	err := u.whileStarved(ctx, func() (err error) {
		if repeated = 0; given > 0 { // again
			o.Sampling.Seed = &stats.Seed
			counted = llmrun.Stats{GeneratedTokens: counted.GeneratedTokens} // the prompt is computed again
		}
		stats, err = u.try(ctx, p, o, count)
		return err
	})
	var minimum *llmrun.MinimumError
	if errors.As(err, &minimum) && given == 0 { // trying again cannot help
		err = &problem{status: http.StatusRequestEntityTooLarge, message: err.Error()}
	}
	u.server.metrics.count(&counted, &stats)
	recordOf(ctx).count(stats)
	return spent{stats, thoughts}, err
}

// try is one attempt of generate.
func (u *use) try(ctx context.Context, p prompt, o llmrun.GenerateOptions, each func(*llmrun.Session, *llmrun.Piece) error) (stats llmrun.Stats, err error) {
	session, err := u.open()
	if err != nil {
		return stats, err
	}
	for piece, failed := range p(ctx, session, o) {
		if failed != nil {
			err = failed
			break
		}
		if err = each(session, &piece); err != nil {
			break
		}
	}
	stats = session.Stats()
	switch {
	case err == nil && u.session == "":
		return stats, u.server.models.keepWarm(u.entry, session)
	case err == nil:
		err = session.Save("")
	}
	return stats, errors.Join(err, session.Close())
}

// open returns the session of the request: a new one, or the one that it names, with the adapter of the request.
func (u *use) open() (*llmrun.Session, error) {
	if u.session != "" {
		return u.engine.OpenSession(u.session, llmrun.SessionOptions{RePrefill: true, Notify: u.Options.Notify, Adapters: u.sessionAdapters()})
	}
	s, err := u.engine.NewSession()
	if err != nil || u.adapter == "" {
		return s, err
	}
	if err := s.UseAdapters(u.adapter); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// sessionAdapters are the adapters with which a saved session goes on: that of the request, or those of a model without one. They are nil if
// the model has no adapters.
func (u *use) sessionAdapters() []string {
	switch {
	case u.adapter != "":
		return []string{u.adapter}
	case len(u.adapters()) > 0:
		return append([]string{}, u.Options.SessionAdapters...)
	}
	return nil
}

// sampling are the parameters of a request, which override the model's own.
type sampling struct {
	temperature, topP, minP, typicalP          *float32
	repeatPenalty, presencePenalty, frequencyP *float32
	topK, repeatLastN, seed                    *int64
	bias                                       map[int32]float32
}

// leastTopP stands for a top_p of 0, with which the APIs mean the most likely token alone, and the library all tokens.
const leastTopP = 1e-9

// over returns the model's parameters with those of the request. Greedy decoding ignores the model's own, whose penalties would
// change the most likely token.
func (r *sampling) over(s llmrun.Sampling) llmrun.Sampling {
	if r.temperature != nil && *r.temperature == 0 {
		s = llmrun.Sampling{}
	}
	for _, f := range []struct {
		target *float32
		given  *float32
	}{
		{&s.Temperature, r.temperature},
		{&s.TopP, r.topP},
		{&s.MinP, r.minP},
		{&s.TypicalP, r.typicalP},
		{&s.RepeatPenalty, r.repeatPenalty},
		{&s.PresencePenalty, r.presencePenalty},
		{&s.FrequencyPenalty, r.frequencyP},
	} {
		if f.given != nil {
			*f.target = *f.given
		}
	}
	if r.topP != nil && *r.topP == 0 {
		s.TopP = leastTopP
	}
	if r.topK != nil {
		s.TopK = int(*r.topK)
	}
	if n := r.repeatLastN; n != nil {
		s.RepeatLastN = int(*n)
		if *n == 0 { // no token counts as seen
			s.RepeatPenalty, s.PresencePenalty, s.FrequencyPenalty = 0, 0, 0
		}
	}
	s.LogitBias = r.bias
	s.Seed = r.seedOf(0)
	return s
}

// seedOf returns the seed of the answer with an index; nil = a random one.
func (r *sampling) seedOf(index int) *uint64 {
	if r.seed == nil {
		return nil
	}
	seed := uint64(*r.seed) + uint64(index)
	return &seed
}

// readMessages reads the messages of a conversation.
func readMessages(o *object, content func(m *object) string) (messages []llmrun.Message) {
	for _, m := range o.list("messages") {
		message := llmrun.Message{Role: "tool", Content: content(m)}
		if role := m.text("role"); role != "tool" && role != "function" {
			message.Role = readRole(m)
		}
		readMessage(m, &message)
		messages = append(messages, message)
	}
	linkResults(messages)
	return messages
}

// readRole reads the role of a message.
func readRole(m *object) string {
	role := m.text("role")
	switch role {
	case "developer":
		return "system"
	case "system", "user", "assistant":
	default:
		m.fail("role", "must be system, user or assistant")
	}
	return role
}

// maxStops bounds the stop strings of a request, as the library does.
const maxStops = 64

// readStops reads the stop strings. Empty ones, which some clients send for none, stop nothing.
func readStops(o *object) []string { return readStopField(o, "stop") }

func readStopField(o *object, field string) []string {
	stops := slices.DeleteFunc(o.texts(field), func(s string) bool { return s == "" })
	if len(stops) > maxStops {
		o.fail(field, "has more than 64 strings")
	}
	return stops
}
