package llmrun

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/draft"
	"github.com/llmrun/llmrun/text/channel"
	"github.com/llmrun/llmrun/text/sample"
	"github.com/llmrun/llmrun/text/token"
)

// Generate continues the session: it prefills prompt behind the session's tokens and yields
// the tokens that follow. In an empty session the prompt starts with the model's
// begin-of-text token, if it has one.
//
// The caller may break out of the loop at any time; the session keeps the tokens that it
// received. An error ends the loop; if ctx ends, the error is its cause. If ctx ends during
// prefill, or prefill fails, the prompt does not become part of the session, unless
// GenerateOptions.KeepPrompt is set. The call can then be repeated and prefills only the rest.
//
//	for piece, err := range session.Generate(ctx, "Once upon a time", llmrun.GenerateOptions{}) {
//		if err != nil {
//			return err
//		}
//		fmt.Print(piece.Text)
//	}
func (s *Session) Generate(ctx context.Context, prompt string, o GenerateOptions) iter.Seq2[Piece, error] {
	return s.run(ctx, o, func(o *GenerateOptions) ([]int32, error) { return s.encodeText(prompt, o) }, nil)
}

// encodeText returns the session's tokens with those of a text behind them.
func (s *Session) encodeText(prompt string, o *GenerateOptions) ([]int32, error) {
	t, err := s.engine.tokenizer()
	if err != nil {
		return nil, err
	}
	room, err := s.engine.reservePrompt(prompt)
	defer room.release()
	if err != nil {
		return nil, err
	}
	held := s.tokens()
	ids, err := t.Encode(prompt, room.encodeOptions(token.EncodeOptions{AllowSpecial: o.ParseSpecial, AddSpecial: len(held) == 0, OpenEnd: true}))
	if err != nil {
		return nil, err
	}
	return slices.Concat(held, ids), nil
}

// GenerateIDs is Generate with a prompt of token ids, to which it does not add a
// begin-of-text token. It works without a tokenizer; the pieces then have no text.
func (s *Session) GenerateIDs(ctx context.Context, ids []int32, o GenerateOptions) iter.Seq2[Piece, error] {
	return s.run(ctx, o, func(*GenerateOptions) ([]int32, error) { return slices.Concat(s.tokens(), ids), nil }, nil)
}

// promptFunc returns the tokens of a prompt, and may set in the options how the answer to it is read.
type promptFunc func(o *GenerateOptions) ([]int32, error)

// run claims the session, computes the whole prompt and generates. t is nil if the prompt is no
// conversation.
func (s *Session) run(ctx context.Context, o GenerateOptions, prompt promptFunc, t *turn) iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		ctx, err := s.begin(ctx)
		if err != nil {
			yield(Piece{}, err)
			return
		}
		defer s.end()
		s.takeOffered()
		g := &generation{session: s, options: o, turn: t, yield: yield, start: time.Now()}
		if err = g.prepare(prompt); err == nil {
			err = s.answers.begin(s)
		}
		if err == nil {
			err = g.generate(ctx)
		}
		s.seq.Rest()
		g.finish(ctx, err)
		g.reader.close()
		g.endConstraint()
		t.end(s, g.answer.Message(), g.stats.GeneratedTokens, !g.firstAt.IsZero())
		_ = s.answers.begin(s) // what the conversation keeps takes less than the answer took
		if s.saves.after {
			s.saveBehind()
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
	turn      *turn // nil if the prompt is no conversation
	yield     func(Piece, error) bool
	abandoned bool // the caller left the loop

	sampler *sample.Sampler
	stops   *sample.StopMatcher
	decoder *token.Decoder // nil without a tokenizer
	channel channel.Splitter
	ids     []int32 // the prompt and the generated tokens
	limit   int     // of the tokens that are processed; see limitAnswer
	answer  Answer
	reader  reader      // splits the answer into its parts
	held    *constraint // nil: the answer may be any text
	calling calling     // a required call behind thoughts
	decided *decided    // holds the calls that the model decides upon; nil: they may be any

	inputs []int32   // the last token and guesses behind it, which a pass processes; empty for the prompt
	got    []sampled // what the pass gave
	right  int       // number of right guesses
	tree   branches  // other guesses of the pass

	start, firstAt  time.Time
	firstFlash      FlashUse // flash use of the engine at the first token
	firstKV         KVUse
	selectionBefore SelectionUse // before prefill
	writtenBefore   int64        // bytes that the store had written before prefill
	savedTokens     int          // tokens of the session in the store before prefill
	stats           Stats
}

// prepare checks the options and computes the prompt. It does not change the session.
func (g *generation) prepare(prompt promptFunc) (err error) {
	e := g.session.engine
	if err := g.options.validate(); err != nil {
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
	if g.ids, err = prompt(&g.options); err != nil {
		return err
	}
	if len(g.ids) == 0 {
		return fmt.Errorf("%w: the prompt is empty, and so is the session", ErrOptions)
	}
	g.stats.Seed = g.sampler.Seed()
	if err := g.fitPrompt(); err != nil {
		return err
	}
	if err := g.constrain(); err != nil {
		return err
	}
	return g.beginAnswer(e.chat.channels)
}

// generate prefills the new part of the prompt and then decodes token after token.
func (g *generation) generate(ctx context.Context) error {
	options := &exec.ExtendOptions{
		Each: g.sample, Progress: g.options.OnPrefill,
		Prompt: len(g.ids) - draft.CommonPrefix(g.session.tokens(), g.ids), Answer: len(g.options.answered) > 0,
	}
	if err := g.prefill(ctx, options); err != nil {
		return err
	}
	// The following passes may have guesses behind the last token.
	*options = exec.ExtendOptions{
		Each: g.sample, Progress: func(_, _ int) { g.stats.Passes++ },
		Want:       func(pos int) bool { return pos >= len(g.ids)-1 },
		Accepted:   func() int { return len(g.ids) + g.right },
		EachBranch: g.sampleBranch, Chosen: func() int { return g.tree.kept }, Answer: true,
	}
	g.tree.options, g.tree.keptPasses = options, &g.session.engine.branchesKept
	extend := func(ids []int32) error { return g.extend(ctx, ids, options) }
	for {
		for i := range g.got {
			if err := g.session.answers.add(g.session.engine, &g.got[i]); err != nil {
				return err
			}
			if g.stats.StopReason = g.accept(&g.got[i]); g.stats.StopReason != "" {
				g.dropUnread(len(g.got) - 1 - i)
				return nil
			}
		}
		g.roomForAnswer()
		if err := g.pass(ctx, extend); err != nil {
			return err
		}
	}
}

// prefill processes the part of the prompt that the session and the prefix cache do not
// contain, and samples the first token.
func (g *generation) prefill(ctx context.Context, options *exec.ExtendOptions) error {
	fresh := g.reuse(ctx)
	for _, id := range g.ids {
		g.sampler.Accept(id)
	}
	if err := g.startDrafts(); err != nil {
		return err
	}
	ready := func() error {
		err := g.limitAnswer()
		if err == nil {
			g.keepPrompt(g.ids, len(fresh))
		}
		return err
	}
	if err := g.extendPrompt(ctx, fresh, options, ready); err != nil {
		return err
	}
	g.session.setTokens(g.ids)
	g.stats.FirstToken = g.firstAt.Sub(g.start)
	return nil
}

// extendPrompt prefills tokens, unless ready returns an error, and records what that took.
func (g *generation) extendPrompt(ctx context.Context, ids []int32, options *exec.ExtendOptions, ready func() error) error {
	engine := g.session.engine
	g.selectionBefore = engine.selectionUse()
	start, flash, kv := time.Now(), engine.flashUse(), engine.KVUse()
	if len(ids) > 0 {
		if err := g.roomOnFlash(0); err != nil {
			return err
		}
		if err := ready(); err != nil {
			return err
		}
		if err := g.extend(ctx, ids, options); err != nil {
			return err
		}
	}
	g.firstAt = time.Now()
	g.stats.Prefill = g.firstAt.Sub(start)
	g.firstFlash = engine.flashUse()
	g.stats.PrefillFlash = g.firstFlash.since(flash)
	g.firstKV = engine.KVUse()
	g.stats.PrefillKV = g.firstKV.since(kv)
	return nil
}

// reuse keeps what the session contains of the prompt, takes what other sessions and the prefix cache
// contain, and returns the tokens behind it, at least one.
func (g *generation) reuse(ctx context.Context) (fresh []int32) {
	fresh = g.session.rewind(g.ids)
	g.stats.RestoredTokens = min(g.session.restored, len(g.ids)-len(fresh))
	g.session.restored = 0
	g.session.finishSave()
	exec.AdoptPrefix(ctx, g.session.seq, g.ids)
	fresh = g.restorePrefix(ctx, g.ids[g.session.seq.Len():])
	g.stats.PromptTokens = len(g.ids)
	g.stats.ReusedTokens = len(g.ids) - len(fresh)
	g.session.beginStats(&g.stats)
	return fresh
}

// accept yields a sampled token. It returns the reason if the generation ends, otherwise "".
func (g *generation) accept(next *sampled) (stop StopReason) {
	s := g.session
	if next.ends {
		return StopEOS
	}
	g.stats.GeneratedTokens++
	g.ids = append(g.ids, next.ID)
	s.setTokens(g.ids)
	s.guesser.accepted(next.ID)
	if !g.emit(next.Piece) {
		return StopCancelled
	}
	for _, p := range next.more {
		if !g.emit(p) {
			return StopCancelled
		}
	}
	switch {
	case next.stopped:
		return StopString
	case next.whole:
		return StopEOS
	case g.stats.GeneratedTokens == g.options.MaxTokens:
		return StopLength
	case g.options.StopRepeats && loops(g.answer.Text()):
		return StopRepeats
	case len(g.ids) > g.limit && (g.options.Overflow != OverflowSlide || g.limit < s.seq.Limit()):
		return StopContext // the token is yielded, but the model cannot process it
	}
	return ""
}

// decodeToken adds the text that the token completes to its piece, and notes whether a stop string is
// complete.
func (g *generation) decodeToken(next *sampled) {
	if g.decoder == nil {
		return
	}
	next.Channel, next.Recipient = g.channel.Channel(), g.channel.Recipient()
	if !g.channel.Next(next.ID) { // what is held back belongs to the part that ends
		next.Text, next.stopped = g.stops.Push(g.decoder.Flush())
		if !next.stopped {
			next.Text += g.stops.Flush()
		}
		g.reader.endChannel(&next.Piece)
		return
	}
	text, err := g.decoder.Next(next.ID)
	if err != nil {
		return // an id of a padded vocabulary that the tokenizer does not have
	}
	next.Text, next.stopped = g.stops.Push(text)
	g.reader.read(next)
}

// emit yields a piece and reports whether the caller continues.
func (g *generation) emit(p Piece) bool {
	g.answer.Add(&p)
	g.abandoned = !g.yield(p, nil)
	return !g.abandoned
}

// finish yields held-back text and records the statistics.
func (g *generation) finish(ctx context.Context, err error) {
	switch {
	case err == nil:
		g.flush()
		if g.stats.StopReason == StopString {
			g.stats.StopText = g.stops.Matched()
		}
	case ctx.Err() != nil:
		g.stats.StopReason = StopCancelled
	default:
		g.stats.StopReason = StopError
	}
	if !g.firstAt.IsZero() {
		g.endDecode(&g.stats)
		g.session.engine.experts.add(g.stats.DecodeFlash.Experts)
	}
	g.savePrefix(ctx)
	s := g.session
	s.guesser.learn(s.engine)
	s.mu.Lock()
	s.stats = g.stats
	s.mu.Unlock()
}

// endDecode records what decoding took, which has begun.
func (g *generation) endDecode(stats *Stats) {
	e := g.session.engine
	stats.Decode = time.Since(g.firstAt)
	stats.DecodeFlash = e.flashUse().since(g.firstFlash)
	stats.DecodeKV = e.KVUse().since(g.firstKV)
	stats.Selection = e.selectionUse().since(g.selectionBefore)
}

// flush yields held-back text unless a stop string or the caller ended the generation.
func (g *generation) flush() {
	if g.decoder == nil || g.abandoned {
		return
	}
	last := sampled{Piece: Piece{ID: noToken, Channel: g.channel.Channel(), Recipient: g.channel.Recipient()}}
	if g.stats.StopReason != StopString {
		var stopped bool
		if last.Text, stopped = g.stops.Push(g.decoder.Flush()); stopped {
			g.stats.StopReason = StopString
		} else {
			last.Text += g.stops.Flush()
		}
	}
	g.reader.finish(&last, g.stats.StopReason == StopEOS)
	if last.Text != "" || last.Call != nil || last.CallEnds {
		g.emit(last.Piece)
	}
	for _, p := range last.more {
		if g.abandoned {
			return
		}
		g.emit(p)
	}
}

// rewind truncates the sequence to the longest prefix that it shares with ids, and returns
// the remaining ids, at least one.
func (s *Session) rewind(ids []int32) []int32 {
	return ids[s.seq.Truncate(draft.CommonPrefix(s.seq.IDs(), ids[:len(ids)-1])):]
}

// Piece is one step of a generation: a token and the text that it completes. Text is empty if
// the token ends in the middle of a character, or if the text may be the beginning of a stop
// string or of a mark; a later piece then contains it. A token that ends one part of the answer and begins another one has
// further pieces with the ID -1, and so has text that is still held back when the generation
// ends. The concatenated texts of all pieces of KindAnswer are the answer; see [Answer].
type Piece struct {
	ID   int32
	Text string
	Kind Kind
	// Call begins a call of a tool, with its ID and name. Its arguments are the texts of this piece and of those that follow, up to
	// one with CallEnds. A call that is cut off has none.
	Call     *ToolCall
	CallEnds bool
	// Channel is the part of the answer that Text belongs to, for models whose answers have several, such
	// as gpt-oss: "" for all others. Text has no marks of parts. Recipient is the tool that the part calls, such
	// as functions.weather, or "".
	Channel, Recipient string
	// LogProb is the logarithm of the token's probability, and Top are the most likely tokens, if the
	// options ask for them: in the model's distribution, before penalties, bias, filters and temperature.
	LogProb float32
	Top     []TokenLogProb
}

// The channels of answers that have several.
const (
	ChannelAnalysis   = channel.Analysis   // what the model thinks
	ChannelCommentary = channel.Commentary // calls of tools, and what it says before them
	ChannelFinal      = channel.Final      // the answer
)

// Answers reports whether the text is part of the answer, rather than of what the model thinks or says to
// tools.
func (p *Piece) Answers() bool { return p.Kind == KindAnswer }

// noToken is the ID of a piece that contains only held-back text.
const noToken = -1

// beginAnswer decodes the tokens of the prompt that belong to the answer, from the channel on that is before them. f may be
// nil.
func (g *generation) beginAnswer(f *channel.Format) error {
	answered := g.options.answered
	g.channel = f.Behind(g.ids[:max(0, len(g.ids)-len(answered))])
	g.reader.begin(g.options.reading)
	if how := g.options.reading; how != nil {
		g.calling.requiredCall = how.behind
	}
	for _, id := range answered {
		must, held := g.mustFollow(), g.holdsNext()
		g.decodeToken(&sampled{Piece: Piece{ID: id}})
		if len(must) > 0 && must[0] == id {
			g.calling.follow(must)
		}
		if _, err := g.passed(id, held); err != nil {
			return err
		}
	}
	return nil
}

// maxRePrefills limits how often a generation re-prefills damaged pages. A disk that damages
// everything must not cause an endless loop.
const maxRePrefills = 3

// extend processes ids, the last of g.ids and guesses behind them. If that fails because pages on flash are damaged, it
// drops them and re-prefills from there. A damaged cache must not prevent an answer. Another error, such as one of the
// sampler, which has seen the tokens, ends the generation.
func (g *generation) extend(ctx context.Context, ids []int32, r *exec.ExtendOptions) error {
	err := g.session.extend(ctx, ids, r)
	for range maxRePrefills {
		if err == nil || !exec.MayBeDamage(err) || !g.dropDamaged(ctx) {
			break
		}
		r.Branches = nil // they begin behind the tokens that are computed again
		ids = g.ids[g.session.seq.Len():]
		if len(g.inputs) > 1 {
			ids = slices.Concat(ids, g.inputs[1:])
		}
		err = g.session.extend(ctx, ids, r)
	}
	return err
}

// dropDamaged drops the pages of the session that do not match their checksums, and reports
// whether there were any.
func (g *generation) dropDamaged(ctx context.Context) bool {
	s := g.session
	damage := s.seq.DropDamaged(ctx, s.stores)
	if damage == nil {
		return false
	}
	s.engine.store.report(damage)
	g.savedTokens = min(g.savedTokens, s.seq.Saved())
	if g.firstAt.IsZero() {
		g.stats.ReusedTokens = min(g.stats.ReusedTokens, s.seq.Len())
		g.stats.RestoredTokens = min(g.stats.RestoredTokens, s.seq.Len())
	}
	return true
}
