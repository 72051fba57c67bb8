package llmrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/llmrun/llmrun/internal/ended"
)

// ErrAnswersMissing is the error of [Summarizer.Assemble] for a summary some of whose steps have no answer yet.
var ErrAnswersMissing = errors.New("steps of the summary have no answer yet")

// SummaryStep is one prompt of a summary. It is complete: any engine with the same model and options gives the same
// answer, on any machine.
type SummaryStep struct {
	Key    string `json:"key"`   // identifies the answer: 32 hexadecimal digits, of all that it follows from
	Level  int    `json:"level"` // 0: a part of the document; 1 and more: merging summaries
	Part   int    `json:"part"`  // from 1 on
	Parts  int    `json:"parts"` // of the level
	Prompt string `json:"prompt"`
	Read   int    `json:"read"`   // about the tokens of the prompt's text
	Tokens int    `json:"tokens"` // most tokens of the answer
}

// work measures what a step costs.
func (s *SummaryStep) work() int64 { return int64(s.Read + answerCost*s.Tokens) }

// SummaryAnswer is the answer to a [SummaryStep].
type SummaryAnswer struct {
	Text string `json:"text"`
	// Repeats: the model repeated itself without end, and Text has what it repeated once.
	Repeats bool `json:"repeats,omitempty"`
}

// Summarizer computes summaries step by step, for programs that keep answers in a place of their own, or that compute
// them on several machines: [Summarizer.Assemble] says which steps have no answer, and [Summarizer.Answer] computes one.
// [Engine.Summarize] does all of it on one machine. A Summarizer is not safe for concurrent use.
type Summarizer struct {
	engine    *Engine
	session   *Session
	options   SummarizeOptions
	sampling  Sampling
	thinking  string
	thinkRoom int
	room      int // tokens of a text and its summary
	identity  string
}

// NewSummarizer returns a summarizer. Close it before the engine.
func (e *Engine) NewSummarizer(o SummarizeOptions) (*Summarizer, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if _, err := e.tokenizer(); err != nil {
		return nil, err
	}
	session, err := e.NewSession()
	if err != nil {
		return nil, err
	}
	session.branch = true // the keys and values of a part are not needed again
	s := &Summarizer{engine: e, session: session, options: o, sampling: o.Sampling}
	if s.sampling.Seed == nil {
		s.sampling.Seed = new(uint64)
		*s.sampling.Seed = 1
	}
	s.thinking, s.thinkRoom = e.summaryThinking()
	overhead, err := s.overhead()
	if err != nil {
		return nil, errors.Join(err, session.Close())
	}
	s.room = s.contextRoom() - overhead
	store, err := e.openedStore()
	switch {
	case err == nil:
		s.identity = store.identity
	case !errors.Is(err, ErrOptions): // a directory that cannot be opened
		return nil, errors.Join(err, session.Close())
	}
	s.identity += s.settings()
	return s, nil
}

// Close releases the summarizer's memory.
func (s *Summarizer) Close() error { return s.session.Close() }

// PartTokens returns the most tokens of a part: that of the options, or what the engine chooses. Engines that share
// the steps of a summary must agree on it.
func (s *Summarizer) PartTokens() (int, error) {
	work := s.summarizer(nil)
	err := work.choosePart()
	return work.sizes.Part, err
}

// Assemble makes the summary of a document from the answers that load returns by their keys. It calls missing for each
// step that has none and whose prompt is known, in the order of the document, and returns ErrAnswersMissing if there was
// one. Call it again when these steps have answers: merges follow parts.
//
// Keys name the model's content, which an engine knows that has a cache directory (see [CacheOptions]), so it needs one.
func (s *Summarizer) Assemble(ctx context.Context, doc *Document, load func(key string) (SummaryAnswer, bool, error), missing func(SummaryStep) error) (_ *Summary, err error) {
	defer ended.Say(ctx, &err)
	if _, err := s.engine.openedStore(); err != nil {
		return nil, err
	}
	work := s.summarizer(doc)
	work.load, work.missing = load, missing
	return s.runReserved(ctx, work)
}

// Identity identifies what answers follow from, beside the document: the model's content, and the options that change
// answers. Engines that share the steps of a summary have the same one.
func (s *Summarizer) Identity() (string, error) {
	if _, err := s.engine.openedStore(); err != nil {
		return "", err
	}
	return summaryKey(s.identity, "", 0), nil
}

// Answer computes a step. It calls Wait and Progress of the options. A step of another model or of other options gives an
// error that wraps ErrOptions.
func (s *Summarizer) Answer(ctx context.Context, step *SummaryStep) (_ SummaryAnswer, err error) {
	defer ended.Say(ctx, &err)
	if step.Key != summaryKey(s.identity, step.Prompt, step.Tokens) {
		return SummaryAnswer{}, fmt.Errorf("%w: step %.32q belongs to another model, or to other options", ErrOptions, step.Key)
	}
	p := SummaryProgress{Level: step.Level, Part: step.Part, Parts: step.Parts, Total: step.work()}
	return s.answer(ctx, step, func(read, answered int) error {
		p.Done = int64(min(read, step.Read)) + int64(answerCost*answered)
		return s.options.report(ctx, p)
	})
}

// report calls the functions of the options.
func (o *SummarizeOptions) report(ctx context.Context, p SummaryProgress) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if o.Wait != nil {
		if err := o.Wait(ctx); err != nil {
			return err
		}
	}
	if o.Progress != nil {
		o.Progress(p)
	}
	return nil
}

// run summarizes a document, and saves its parts if there is a cache directory.
func (s *Summarizer) run(ctx context.Context, doc *Document) (*Summary, error) {
	work := s.summarizer(doc)
	if store, err := s.engine.openedStore(); err == nil {
		work.jobs = &jobStore{fsys: store.fsys, base: store.path}
	}
	return s.runReserved(ctx, work)
}

// summarizer returns what divides and merges a document.
func (s *Summarizer) summarizer(doc *Document) *summarizer {
	return &summarizer{
		document: doc, options: &s.options, count: s.count, answer: s.answer,
		identity: s.identity, model: cmp.Or(s.engine.info.Name, s.engine.info.Path), room: s.room,
	}
}

// runReserved makes a summary with memory that it releases behind it.
func (s *Summarizer) runReserved(ctx context.Context, work *summarizer) (*Summary, error) {
	room := &promptRoom{engine: s.engine}
	defer room.release()
	work.reserve = func(bytes int64) error {
		return room.reserveFor(fmt.Sprintf("a summary of %s takes", work.name()), bytes)
	}
	return work.run(ctx)
}

// summaryThinking returns how much the model thinks about a summary: as little as its template permits. room is how
// many tokens that may take.
func (e *Engine) summaryThinking() (level string, room int) {
	levels := e.ThinkingLevels()
	switch {
	case len(levels) == 0, slices.Contains(levels, ThinkOff):
		if slices.Contains(levels, ThinkOff) {
			level = ThinkOff
		}
		return level, 0
	case slices.Contains(levels, ThinkLow):
		level = ThinkLow
	}
	return level, 1024
}

// settings returns everything about the engine that changes answers, beside the identity of its store.
func (s *Summarizer) settings() string {
	seed := *s.sampling.Seed
	plain := s.sampling
	plain.Seed = nil
	adapters := s.session.Adapters()
	settings := fmt.Sprintf("\x00%s\x00%v\x00%d\x00%v\x00%s", s.engine.info.KV, plain, seed, adapters, s.thinking)
	if s.options.Schema != "" {
		settings += "\x00" + s.options.Schema
	}
	return settings
}

// contextRoom returns how many tokens a part with its prompt and its summary may take: those of the context, but no more
// than fit in memory, because keys and values on flash that nobody needs again wear it out.
func (s *Summarizer) contextRoom() int {
	room := s.session.Limit()
	m := &s.engine.mem
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.current; p != nil && p.KVHot > 0 && s.engine.info.KVBytesPerToken > 0 {
		room = min(room, int(p.KVHot/s.engine.info.KVBytesPerToken))
	}
	return room
}

// overhead returns the tokens of a prompt without its text.
func (s *Summarizer) overhead() (int, error) {
	p := newPrompts(&s.options)
	longest := 0
	for _, prompt := range []string{p.part("", maxSummaryWords), p.merge("", maxSummaryWords), p.refine("", "", maxSummaryWords), p.fields("")} {
		ids, err := s.engine.EncodeChat([]Message{{Role: "user", Content: prompt}}, s.chat())
		if err != nil {
			return 0, err
		}
		longest = max(longest, len(ids))
	}
	return longest + s.thinkRoom + 16, nil // tokens may join differently around the text
}

func (s *Summarizer) chat() ChatOptions { return ChatOptions{Thinking: s.thinking} }

// count counts the tokens of a text.
func (s *Summarizer) count(text string) (int, error) {
	ids, err := s.engine.tok.Encode(text, EncodeOptions{})
	return len(ids), err
}

// answer computes a step. It calls report while it reads and answers.
func (s *Summarizer) answer(ctx context.Context, step *SummaryStep, report func(read, answered int) error) (SummaryAnswer, error) {
	answer, kept, err := s.ask(ctx, step, true, report)
	if err != nil || !answer.Repeats || s.options.Schema == "" {
		return answer, err
	}
	// Fields cannot be cut. The same answer with fewer tokens ends where it begins to repeat itself.
	whole := *step
	whole.Tokens = min(step.Tokens, kept+s.session.Stats().ShortestTokens)
	if answer, _, err = s.ask(ctx, &whole, false, report); err == nil {
		answer.Repeats = true
	}
	return answer, err
}

// ask asks the model. If it is watched, the answer ends once it repeats itself, and kept is the number of tokens before.
func (s *Summarizer) ask(ctx context.Context, step *SummaryStep, watched bool, report func(read, answered int) error) (answer SummaryAnswer, kept int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var once sync.Once
	o := GenerateOptions{MaxTokens: step.Tokens + s.thinkRoom, Sampling: s.sampling, Chat: s.chat(), Schema: s.options.Schema}
	o.OnPrefill = func(done, _ int) {
		if err := report(done, 0); err != nil {
			once.Do(func() { cancel(err) })
		}
	}
	var got Answer
	var lengths []int // of the text behind each token
	defer func() {
		if len(lengths) > 0 && s.options.Answered != nil {
			s.options.Answered(s.session.Stats())
		}
	}()
	for piece, err := range s.session.ChatMessages(ctx, []Message{{Role: "user", Content: step.Prompt}}, o) {
		if err != nil {
			return SummaryAnswer{}, 0, err
		}
		got.Add(&piece)
		lengths = append(lengths, len(got.Text()))
		if err := report(step.Read, len(lengths)); err != nil {
			return SummaryAnswer{}, 0, err
		}
		if once, repeats := withoutRepeats(got.Text()); repeats && watched {
			kept, _ = slices.BinarySearch(lengths, len(once))
			return SummaryAnswer{Text: strings.TrimSpace(once), Repeats: true}, kept, nil
		}
	}
	text := strings.TrimSpace(got.Text())
	stats := s.session.Stats()
	switch {
	case stats.StopReason == StopEOS:
	case o.Schema != "":
		return SummaryAnswer{}, 0, fmt.Errorf("%w: an answer within Schema may have %d tokens beside a part of the document, and the shortest takes up to %d; raise PartTokens or the context", ErrOptions, step.Tokens, stats.ShortestTokens)
	default:
		text = lastWhole(text)
	}
	return SummaryAnswer{Text: text}, len(lengths), nil
}
