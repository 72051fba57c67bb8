package llmrun

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/text/sample"
	"github.com/llmrun/llmrun/text/token"
)

// Piece is one step of a generation: a token and the text that it completes. Text is empty if
// the token ends in the middle of a character, or if the text may be the beginning of a stop
// string; a later piece then contains it. If text is still held back when the generation
// ends, a last piece with the ID -1 contains it. The concatenated texts of all pieces are the
// answer.
type Piece struct {
	ID   int32
	Text string
}

// noToken is the ID of a piece that contains only held-back text.
const noToken = -1

// Generate continues the session: it prefills prompt behind the session's tokens and yields
// the tokens that follow. In an empty session the prompt starts with the model's
// begin-of-text token, if it has one.
//
// The caller may break out of the loop at any time; the session keeps the tokens that it
// received. An error ends the loop; if ctx ends, the error is its cause. If ctx ends during
// prefill, or prefill fails, the prompt does not become part of the session. The call can
// then be repeated and prefills only the rest.
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
		held := s.tokens()
		ids := t.Encode(prompt, token.EncodeOptions{AllowSpecial: o.ParseSpecial, AddSpecial: len(held) == 0})
		return slices.Concat(held, trimEnd(ids, s.engine.ends)), nil
	}, nil)
}

// trimEnd removes the end-of-text token that some tokenizers append to a prompt.
func trimEnd(ids, ends []int32) []int32 {
	if n := len(ids); n > 0 && slices.Contains(ends, ids[n-1]) {
		return ids[:n-1]
	}
	return ids
}

// GenerateIDs is Generate with a prompt of token ids, to which it does not add a
// begin-of-text token. It works without a tokenizer; the pieces then have no text.
func (s *Session) GenerateIDs(ctx context.Context, ids []int32, o GenerateOptions) iter.Seq2[Piece, error] {
	return s.run(ctx, o, func() ([]int32, error) { return slices.Concat(s.tokens(), ids), nil }, nil)
}

// run claims the session, computes the whole prompt and generates. It passes the answer's
// text to done, which may be nil.
func (s *Session) run(ctx context.Context, o GenerateOptions, prompt func() ([]int32, error), done func(text string, err error)) iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		ctx, err := s.begin(ctx)
		if err != nil {
			yield(Piece{}, err)
			return
		}
		defer s.end()
		g := &generation{session: s, options: o, yield: yield, start: time.Now()}
		if err = g.prepare(prompt); err == nil {
			err = g.generate(ctx)
		}
		g.finish(ctx, err)
		if done != nil {
			done(string(g.text), err)
		}
		if err != nil && !g.abandoned {
			yield(Piece{}, err)
		}
	}
}

// generation is the state of one call of run.
type generation struct {
	session   *Session
	options   GenerateOptions
	yield     func(Piece, error) bool
	abandoned bool // the caller left the loop

	sampler *sample.Sampler
	stops   *sample.StopMatcher
	decoder *token.Decoder // nil without a tokenizer
	ids     []int32        // the prompt and the generated tokens
	next    int32
	text    []byte

	start, firstAt  time.Time
	firstFlash      FlashUse // flash use of the engine at the first token
	firstKV         KVUse
	selectionBefore SelectionUse // before prefill
	writtenBefore   int64        // bytes that the store had written before prefill
	savedTokens     int          // tokens of the session in the store before prefill
	stats           Stats
}

// prepare checks the options and computes the prompt. It does not change the session.
func (g *generation) prepare(prompt func() ([]int32, error)) (err error) {
	e := g.session.engine
	if g.options.MaxTokens < 0 {
		return fmt.Errorf("%w: MaxTokens is %d; it must not be negative (0 is no limit)", ErrOptions, g.options.MaxTokens)
	}
	if err := checkOverflow(g.options.Overflow); err != nil {
		return err
	}
	if g.sampler, err = sample.New(sample.Params(g.options.Sampling), e.model.Spec.Vocab); err != nil {
		return err
	}
	if g.stops, err = sample.NewStopMatcher(g.options.Stop); err != nil {
		return err
	}
	if e.tok != nil {
		g.decoder = e.tok.t.NewDecoder()
	}
	if g.ids, err = prompt(); err != nil {
		return err
	}
	if len(g.ids) == 0 {
		return fmt.Errorf("%w: the prompt is empty, and so is the session", ErrOptions)
	}
	g.stats.Seed = g.sampler.Seed()
	return g.fitPrompt()
}

// generate prefills the new part of the prompt and then decodes token after token.
func (g *generation) generate(ctx context.Context) error {
	options := &exec.ExtendOptions{
		Each: func(_ int, logits []float32) (err error) {
			g.next, err = g.sampler.Sample(logits)
			return err
		},
		Progress: g.options.OnPrefill,
		Prompt:   len(g.ids) - commonPrefix(g.session.tokens(), g.ids),
	}
	if err := g.prefill(ctx, options); err != nil {
		return err
	}
	options.Progress, options.Prompt = nil, 0
	for {
		if g.stats.StopReason = g.accept(); g.stats.StopReason != "" {
			return nil
		}
		if err := g.extend(ctx, g.tokensToPrefill(), options); err != nil {
			return err
		}
	}
}

// prefill processes the part of the prompt that the session and the prefix cache do not
// contain, and samples the first token.
func (g *generation) prefill(ctx context.Context, options *exec.ExtendOptions) error {
	fresh := g.session.rewind(g.ids)
	g.stats.RestoredTokens = min(g.session.restored, len(g.ids)-len(fresh))
	g.session.restored = 0
	fresh = g.restorePrefix(ctx, fresh)
	g.stats.PromptTokens = len(g.ids)
	g.stats.ReusedTokens = len(g.ids) - len(fresh)
	for _, id := range g.ids {
		g.sampler.Accept(id)
	}
	engine := g.session.engine
	g.selectionBefore = engine.selectionUse()
	start, flash, kv := time.Now(), engine.flashUse(), engine.KVUse()
	if err := g.extend(ctx, fresh, options); err != nil {
		return err
	}
	g.session.setTokens(g.ids)
	g.firstAt = time.Now()
	g.stats.Prefill = g.firstAt.Sub(start)
	g.stats.FirstToken = g.firstAt.Sub(g.start)
	g.firstFlash = engine.flashUse()
	g.stats.PrefillFlash = g.firstFlash.since(flash)
	g.firstKV = engine.KVUse()
	g.stats.PrefillKV = g.firstKV.since(kv)
	return nil
}

// accept yields the sampled token. It returns the reason if the generation ends, otherwise
// "".
func (g *generation) accept() (stop string) {
	s := g.session
	if slices.Contains(s.engine.ends, g.next) && !g.options.IgnoreEOS {
		return StopEOS
	}
	g.sampler.Accept(g.next)
	g.stats.GeneratedTokens++
	g.ids = append(g.ids, g.next)
	s.setTokens(g.ids)
	text, stopped := g.decodeToken(g.next)
	if !g.emit(Piece{g.next, text}) {
		return StopCancelled
	}
	switch {
	case stopped:
		return StopString
	case g.stats.GeneratedTokens == g.options.MaxTokens:
		return StopLength
	case len(g.ids) > s.seq.Limit() && g.options.Overflow != OverflowSlide:
		return StopContext // the token is yielded, but the model cannot process it
	}
	return ""
}

// decodeToken returns the text that the token completes, and whether a stop string is
// complete.
func (g *generation) decodeToken(id int32) (text string, stopped bool) {
	if g.decoder == nil {
		return "", false
	}
	text, err := g.decoder.Next(id)
	if err != nil {
		return "", false // an id of a padded vocabulary that the tokenizer does not have
	}
	return g.stops.Push(text)
}

// emit yields a piece and reports whether the caller continues.
func (g *generation) emit(p Piece) bool {
	g.text = append(g.text, p.Text...)
	g.abandoned = !g.yield(p, nil)
	return !g.abandoned
}

// finish yields held-back text and records the statistics.
func (g *generation) finish(ctx context.Context, err error) {
	switch {
	case err == nil:
		g.flush()
	case ctx.Err() != nil:
		g.stats.StopReason = StopCancelled
	default:
		g.stats.StopReason = StopError
	}
	if !g.firstAt.IsZero() {
		g.stats.Decode = time.Since(g.firstAt)
		g.stats.DecodeFlash = g.session.engine.flashUse().since(g.firstFlash)
		g.stats.DecodeKV = g.session.engine.KVUse().since(g.firstKV)
		g.stats.Selection = g.session.engine.selectionUse().since(g.selectionBefore)
	}
	g.savePrefix(ctx)
	s := g.session
	s.mu.Lock()
	s.stats = g.stats
	s.mu.Unlock()
}

// flush yields held-back text unless a stop string or the caller ended the generation.
func (g *generation) flush() {
	if g.decoder == nil || g.abandoned || g.stats.StopReason == StopString {
		return
	}
	rest, stopped := g.stops.Push(g.decoder.Flush())
	if stopped {
		g.stats.StopReason = StopString
	} else {
		rest += g.stops.Flush()
	}
	if rest != "" {
		g.emit(Piece{noToken, rest})
	}
}

// rewind truncates the sequence to the longest prefix that it shares with ids, and returns
// the remaining ids, at least one.
func (s *Session) rewind(ids []int32) []int32 {
	return ids[s.seq.Truncate(commonPrefix(s.seq.IDs(), ids[:len(ids)-1])):]
}

// commonPrefix returns the length of the longest common prefix of two sequences.
func commonPrefix(a, b []int32) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
