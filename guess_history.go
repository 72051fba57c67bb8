package llmrun

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/llmrun/llmrun/exec/draft"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/tiering"
)

// guessHistory learns how often the guesses of each drafter are right. That depends on the model and on the texts, so
// a plan predicts with what runs of the model saw. The file with the rates of the machine stores it.
type guessHistory struct {
	rates rateMeasurer
	model string // identity of the model; see guessedModel

	mu sync.Mutex
	by map[string]draft.History
}

// newGuessHistory returns nil if there is no directory for the file, or the identity of the model is not known.
func newGuessHistory(ctx context.Context, o *Options, f *modelfile.Files, s *tiering.Shape) *guessHistory {
	h := &guessHistory{rates: o.rateMeasurer(), model: guessedModel(ctx, f, s), by: map[string]draft.History{}}
	h.rates.dir = cmp.Or(o.Cache.Dir, o.Cache.KVDir)
	if h.model == "" || h.rates.dir == "" || o.Cache.NoKV && o.Cache.Dir == "" {
		return nil
	}
	return h
}

// guessedModel identifies a model by the content of the files that it was made from, and by the bytes of weights of a token,
// which tell quantizations of it apart. It is the same for a model under another name, and for its packs. It returns "" if
// the files would have to be read for that.
func guessedModel(ctx context.Context, f *modelfile.Files, s *tiering.Shape) string {
	if f.Packed() == nil {
		paths, err := f.SourceFiles()
		if err != nil || !f.Hashes.Knows(f.FS, paths) {
			return ""
		}
	}
	origin, err := f.Origin(ctx)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%x, %d bytes a token", origin[:8], s.TokenBytes())
}

// guessesKey names a drafter of a model in the file.
func guessesKey(model, drafter string) string {
	return fmt.Sprintf("guesses of %s for %s", drafter, model)
}

// guessHistory returns what runs of a model saw of a drafter's guesses, and whether they saw enough.
func (m *rateMeasurer) guessHistory(model, drafter string) (h draft.History, ok bool) {
	seen := m.load()[guessesKey(model, drafter)].Guesses
	if seen == nil || model == "" {
		return h, false
	}
	h = draft.History(*seen)
	return h, h.Valid() && h.Enough()
}

// add counts the guesses of an answer.
func (h *guessHistory) add(drafter string, counts draft.History) {
	h.mu.Lock()
	defer h.mu.Unlock()
	sum := h.by[drafter]
	sum.Asked += counts.Asked
	sum.Guessed += counts.Guessed
	sum.Right += counts.Right
	sum.Wrong += counts.Wrong
	h.by[drafter] = sum
}

// save stores what was learned, if it is enough.
func (h *guessHistory) save() error {
	if h == nil {
		return nil
	}
	maps.DeleteFunc(h.by, func(_ string, counts draft.History) bool { return !counts.Enough() })
	if len(h.by) == 0 {
		return nil
	}
	known := h.rates.load()
	for drafter, counts := range h.by {
		key := guessesKey(h.model, drafter)
		if old := known[key].Guesses; old != nil {
			counts = draft.History(*old).After(counts)
		}
		use := GuessCounts(counts)
		known[key] = Rates{Measured: timestamp(), Threads: h.rates.threads, Guesses: &use}
	}
	clear(h.by)
	return h.rates.save(known)
}

// GuessCounts counts what became of the guesses of a drafter.
type GuessCounts struct {
	Asked   int `json:"asked"`   // passes for which the drafter was asked
	Guessed int `json:"guessed"` // passes for which it had guesses
	Right   int `json:"right"`   // right guesses
	Wrong   int `json:"wrong"`   // passes that a wrong guess ended
}

// startCounting begins to learn from an answer. Where auto guesses little because passes of several tokens take long, the
// guesses that it leaves out would be missing.
func (d *guesser) startCounting(e *Engine) {
	d.counts = d.counts[:0]
	if e.guesses != nil && (d.always || e.streamsWeights()) {
		d.counts = append(d.counts, make([]draft.History, len(d.drafters))...)
	}
}

// streamsWeights reports whether passes read weights from flash.
func (e *Engine) streamsWeights() bool {
	e.mem.mu.Lock()
	defer e.mem.mu.Unlock()
	return e.mem.current != nil && e.mem.current.StreamedPerToken > 0
}

// note counts a pass for which the last drafter was asked.
func (d *guesser) note(guesses, right int) {
	if len(d.counts) == 0 {
		return
	}
	// Look-up beside another drafter guesses only where it is sure, so its counts would tell nothing about look-up alone.
	if len(d.asked) == len(d.drafters) {
		d.counts[len(d.asked)-1].Add(guesses, right)
	}
	d.asked = nil
}

// learn keeps the counts of an answer.
func (d *guesser) learn(e *Engine) {
	if d == nil || e.guesses == nil {
		return
	}
	for i, counts := range d.counts {
		e.guesses.add(d.drafters[i].Name(), counts)
	}
	d.counts = d.counts[:0]
}
