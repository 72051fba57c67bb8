package llmrun

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/text/token"
	"github.com/llmrun/llmrun/tiering"
)

// describer is what an engine needs to describe texts: the layers behind the network, in memory of the ledger, and the calls
// that run.
type describer struct {
	described *modelfile.Description
	failed    error // why the files' description cannot be used
	frame     *tiering.Frame
	template  string // that joins a query and a text; "" if the files have none
	limit     int    // tokens of a text
	longest   int    // tokens of a sequence of ids
	vocab     int

	turn    sync.Mutex // held while texts are read: they share the memory of one context
	running int        // calls; Engine.mu guards it and cancels
	cancels map[int]context.CancelCauseFunc
	calls   int
}

// describerBytes returns the memory of the layers behind a network.
func describerBytes(f *modelfile.Files) int64 {
	d, err := f.Description()
	if err != nil {
		return 0
	}
	return tiering.PageUp(4 * int64(d.Floats()))
}

// open reads the layers behind the network. What is wrong with them is reported when they are used: the network may be of use
// without them.
func (d *describer) open(f *modelfile.Files, spec *arch.Spec, limit int, budget *tiering.Budget) error {
	d.limit, d.longest, d.vocab = limit, limit, spec.Vocab
	d.described, d.failed = f.Description()
	if d.described == nil {
		return nil
	}
	if most := d.described.MaxTokens; most > 0 {
		d.limit = min(limit, most)
	}
	var err error
	if d.template, err = f.RankTemplate(); err != nil {
		return err
	}
	n := d.described.Floats()
	if n == 0 {
		return nil
	}
	if d.frame, err = tiering.Alloc(budget, tiering.Pinned, 4*n); err != nil {
		return err
	}
	return d.described.Load(d.frame.Floats())
}

func (d *describer) close() {
	if d.frame != nil {
		d.frame.Free()
		d.frame = nil
	}
}

// description returns what the files say about describing texts.
func (d *describer) description() (*modelfile.Description, error) { return d.described, d.failed }

// cancelAll ends the running calls. The caller holds Engine.mu.
func (d *describer) cancelAll() {
	for _, cancel := range d.cancels {
		cancel(ErrClosed)
	}
}

// generates returns an error for a model that only describes texts.
func (e *Engine) generates() error {
	switch {
	case e.model.Spec.Encoder.Bidirectional:
		return fmt.Errorf("%w: %s is an encoder of texts and generates none; Embed and Rank use it (llmrun embed, llmrun rank)", ErrOptions, e.info.Path)
	case e.model.Spec.Headless:
		return fmt.Errorf("%w: %s scores texts and generates none; Rank uses it (llmrun rank)", ErrOptions, e.info.Path)
	}
	return nil
}

// MaxTextTokens returns the most tokens of a text that Embed and Rank read, special tokens included.
func (e *Engine) MaxTextTokens() int { return e.describer.limit }

// VectorLength returns the number of elements of the vectors of Embed, if [EmbedOptions] ask for no fewer.
func (e *Engine) VectorLength() int {
	d, _ := e.describer.description() // Embed reports what is wrong with it
	if d != nil && len(d.Dense) > 0 {
		return d.Dense[len(d.Dense)-1].Rows
	}
	return e.model.Spec.Dim
}

// encodePlain returns the tokens of a text without special ones.
func (e *Engine) encodePlain(text string) ([]int32, error) {
	if e.tok == nil {
		return nil, fmt.Errorf("%w: %s accepts only token ids", ErrNoTokenizer, e.info.Path)
	}
	room, err := e.reservePrompt(text)
	defer room.release()
	if err != nil {
		return nil, err
	}
	return e.tok.t.Encode(text, room.encodeOptions(token.EncodeOptions{}))
}

// cut returns the ids of a text with those before and behind it, and drops the end of a text that is too long.
func (d *describer) cut(before, ids, behind []int32, stats *EmbedStats) []int32 {
	if room := max(0, d.limit-len(before)-len(behind)); len(ids) > room {
		ids = ids[:room]
		stats.Truncated++
	}
	all := make([]int32, 0, len(before)+len(ids)+len(behind))
	return append(append(append(all, before...), ids...), behind...)
}

// checkIDs checks the ids of text i.
func (d *describer) checkIDs(ids []int32, i int) error {
	if len(ids) == 0 {
		return fmt.Errorf("%w: text %d has no tokens", ErrOptions, i)
	}
	if len(ids) > d.longest {
		return fmt.Errorf("text %d: %w", i, &ContextFullError{Tokens: len(ids), Limit: d.longest, Prompt: true})
	}
	for at, id := range ids {
		if id < 0 || int(id) >= d.vocab {
			return fmt.Errorf("%w: text %d: id %d at index %d; the vocabulary has %d tokens", ErrToken, i, id, at, d.vocab)
		}
	}
	return nil
}

// textReading collects texts and reads as many as share a pass at a time.
type textReading struct {
	e      *Engine
	ctx    context.Context
	call   int
	texts  []exec.Text
	finish []func() error
	tokens int // of whole pages
}

// groupTokens is the tokens of texts that are read together, and their memory for keys and values. More do not make a pass
// faster.
const groupTokens = 512

// beginReading begins a call that reads texts. The caller calls end.
func (e *Engine) beginReading(ctx context.Context) (*textReading, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, ErrClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	d := &e.describer
	d.running++
	d.calls++
	if d.cancels == nil {
		d.cancels = map[int]context.CancelCauseFunc{}
	}
	d.cancels[d.calls] = cancel
	return &textReading{e: e, ctx: ctx, call: d.calls}, nil
}

// end ends the call. If the engine was closed in the meantime, the last one releases its memory.
func (r *textReading) end() {
	r.e.mu.Lock()
	r.e.describer.running--
	r.e.describer.cancels[r.call](nil)
	delete(r.e.describer.cancels, r.call)
	r.e.mu.Unlock()
	_ = r.e.releaseIfUnused() // an error of closing files that were only read
}

// add adds a text, whose results are finished in the order in which texts were added.
func (r *textReading) add(ids []int32, o exec.ExtendOptions, finish func() error) error {
	page := r.e.model.KVStats().PageTokens
	pages := (len(ids) + page - 1) / page * page
	if r.tokens > 0 && r.tokens+pages > min(groupTokens, (r.e.limit+page-1)/page*page) {
		if err := r.flush(); err != nil {
			return err
		}
	}
	r.texts, r.finish, r.tokens = append(r.texts, exec.Text{IDs: ids, Options: o}), append(r.finish, finish), r.tokens+pages
	return nil
}

// flush reads the collected texts.
func (r *textReading) flush() error {
	if len(r.texts) == 0 {
		return r.cause(r.ctx.Err())
	}
	r.e.describer.turn.Lock()
	err := exec.ReadTexts(r.ctx, r.e.model, r.texts)
	r.e.describer.turn.Unlock()
	if err == nil {
		err = r.e.fresh.check()
	}
	for i := range r.finish {
		if err == nil {
			err = r.finish[i]()
		}
	}
	r.texts, r.finish, r.tokens = r.texts[:0], r.finish[:0], 0
	return r.cause(err)
}

// cause returns the error of endOf if a call has failed because its context ended.
func (r *textReading) cause(err error) error {
	if err != nil && r.ctx.Err() != nil && errors.Is(err, r.ctx.Err()) {
		return endOf(r.ctx)
	}
	return err
}
