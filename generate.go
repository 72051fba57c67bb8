package llmrun

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/sample"
	"github.com/llmrun/llmrun/exec/token"
)

// Piece is a step of a generation: a token, and the text that became certain
// with it. Text is empty while a character is spelled by several tokens or
// while the text may be the beginning of a stop string; what was held back
// comes with a later piece, the last one with ID -1.
type Piece struct {
	ID   int32
	Text string
}

// noToken is the ID of a piece that only hands over text that was held back.
const noToken = -1

// Generate continues the session's text: it reads prompt and yields the tokens
// that follow. The loop may be left at any time; the session keeps what was
// generated. An error ends the loop; when ctx ends, that is its cause.
//
//	for piece, err := range session.Generate(ctx, "Once upon a time", llmrun.GenerateOptions{}) {
//		if err != nil {
//			return err
//		}
//		fmt.Print(piece.Text)
//	}
func (s *Session) Generate(ctx context.Context, prompt string, o GenerateOptions) iter.Seq2[Piece, error] {
	return s.run(ctx, o, func() ([]int32, error) {
		t, err := s.engine.tokenizer()
		if err != nil {
			return nil, err
		}
		first := s.seq.Len()+len(s.pending) == 0
		ids := t.Encode(prompt, token.EncodeOptions{AllowSpecial: o.ParseSpecial, AddSpecial: first})
		return s.after(trimEnd(ids, s.engine.ends)), nil
	}, nil)
}

// trimEnd removes the end-of-text token that some tokenizers add: the text is
// to go on.
func trimEnd(ids, ends []int32) []int32 {
	if n := len(ids); n > 0 && slices.Contains(ends, ids[n-1]) {
		return ids[:n-1]
	}
	return ids
}

// GenerateIDs is Generate for a prompt of token ids, which are read as they
// are. It works without a tokenizer; pieces then have no text.
func (s *Session) GenerateIDs(ctx context.Context, ids []int32, o GenerateOptions) iter.Seq2[Piece, error] {
	return s.run(ctx, o, func() ([]int32, error) { return s.after(ids), nil }, nil)
}

// after returns the session's whole text, ids appended.
func (s *Session) after(ids []int32) []int32 {
	return slices.Concat(s.seq.IDs(), s.pending, ids)
}

// run claims the session, works out the whole prompt and generates. done, if
// set, is given the answer's text at the end.
func (s *Session) run(ctx context.Context, o GenerateOptions, prompt func() ([]int32, error), done func(text string, err error)) iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		ctx, err := s.begin(ctx)
		if err != nil {
			yield(Piece{}, err)
			return
		}
		defer s.end()
		g := &generation{session: s, options: o, yield: yield, start: time.Now()}
		g.stats.StopReason = "error"
		if err = g.prepare(prompt); err == nil {
			err = g.generate(ctx)
		}
		g.finish(err)
		if done != nil {
			done(string(g.text), err)
		}
		if err != nil && !g.left {
			yield(Piece{}, err)
		}
	}
}

// generation is the state of one run.
type generation struct {
	session *Session
	options GenerateOptions
	yield   func(Piece, error) bool
	left    bool // the caller left the loop

	sampler *sample.Sampler
	stops   *sample.StopMatcher
	decoder *token.Decoder // nil without a tokenizer
	prompt  []int32
	next    int32
	text    []byte

	start, firstAt time.Time
	stats          Stats
}

func (g *generation) prepare(prompt func() ([]int32, error)) (err error) {
	e := g.session.engine
	if g.options.MaxTokens < 0 {
		return errors.Join(ErrOptions, errors.New("MaxTokens is negative"))
	}
	if g.sampler, err = sample.New(g.options.Sampling, e.model.Spec.Vocab); err != nil {
		return err
	}
	if g.stops, err = sample.NewStopMatcher(g.options.Stop); err != nil {
		return err
	}
	if e.tok != nil {
		g.decoder = e.tok.t.NewDecoder()
	}
	if g.prompt, err = prompt(); err != nil {
		return err
	}
	if len(g.prompt) == 0 {
		return errors.Join(ErrOptions, errors.New("the prompt is empty"))
	}
	g.stats.Seed = g.sampler.Seed()
	return nil
}

// generate reads what is new of the prompt and then token after token.
func (g *generation) generate(ctx context.Context) error {
	fresh := g.session.rewind(g.prompt)
	g.stats.PromptTokens = len(g.prompt)
	g.stats.ReusedTokens = len(g.prompt) - len(fresh)
	for _, id := range g.prompt {
		g.sampler.Accept(id)
	}
	reader := &exec.Reader{
		Each: func(_ int, logits []float32) (err error) {
			g.next, err = g.sampler.Sample(logits)
			return err
		},
		Progress: g.options.OnPrefill,
	}
	if err := g.read(ctx, fresh, reader); err != nil {
		return err
	}
	g.firstAt = time.Now()
	g.stats.Prefill = g.firstAt.Sub(g.start)
	g.stats.FirstToken = g.stats.Prefill
	reader.Progress = nil
	one := make([]int32, 1)
	for {
		if stop := g.accept(); stop != "" {
			g.stats.StopReason = stop
			return nil
		}
		one[0] = g.next
		if err := g.read(ctx, one, reader); err != nil {
			return err
		}
		g.session.pending = nil
	}
}

// read extends the sequence, and finishes work on the caller's machine that
// was cancelled with the caller's reason.
func (g *generation) read(ctx context.Context, ids []int32, r *exec.Reader) error {
	err := g.session.engine.model.Extend(ctx, g.session.seq, ids, r)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// accept hands the chosen token over. It returns why the generation ends, or
// "" if it goes on.
func (g *generation) accept() (stop string) {
	s, e := g.session, g.session.engine
	if slices.Contains(e.ends, g.next) && !g.options.IgnoreEOS {
		return "eos"
	}
	g.sampler.Accept(g.next)
	g.stats.GeneratedTokens++
	s.pending = []int32{g.next}
	text, stopped := g.spell(g.next)
	if !g.emit(Piece{g.next, text}) {
		return "cancelled"
	}
	switch {
	case stopped:
		return "stop"
	case g.stats.GeneratedTokens == g.options.MaxTokens:
		return "length"
	case s.seq.Len() >= s.seq.Limit():
		return "context"
	}
	return ""
}

// spell returns the text that became certain with a token, and whether a stop
// string is complete.
func (g *generation) spell(id int32) (text string, stopped bool) {
	if g.decoder == nil {
		return "", false
	}
	text, err := g.decoder.Next(id)
	if err != nil {
		return "", false // an id beyond the tokenizer's vocabulary, as padded models have
	}
	return g.stops.Push(text)
}

// emit yields a piece.
func (g *generation) emit(p Piece) bool {
	g.text = append(g.text, p.Text...)
	g.left = !g.yield(p, nil)
	return !g.left
}

// finish hands over what was held back and notes the figures.
func (g *generation) finish(err error) {
	if g.decoder != nil && err == nil && !g.left && g.stats.StopReason != "stop" {
		rest, stopped := g.stops.Push(g.decoder.Flush())
		if !stopped {
			rest += g.stops.Flush()
		}
		if rest != "" {
			g.emit(Piece{noToken, rest})
		}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		g.stats.StopReason = "cancelled"
	}
	if !g.firstAt.IsZero() {
		g.stats.Decode = time.Since(g.firstAt)
	}
	s := g.session
	s.mu.Lock()
	s.stats = g.stats
	s.mu.Unlock()
}

// rewind makes the session hold the longest prefix of ids that it has read
// already, and returns the rest, at least one token.
func (s *Session) rewind(ids []int32) []int32 {
	have := s.seq.IDs()
	n := 0
	for n < len(have) && n < len(ids)-1 && have[n] == ids[n] {
		n++
	}
	s.pending = nil
	return ids[s.seq.Truncate(n):]
}
