package exec

import (
	"errors"

	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/kv/segment"
	"github.com/llmrun/llmrun/tiering"
)

// saving is a save that is written behind the computation.
type saving struct {
	save   *kv.Save    // nil: none
	tokens int         // leading tokens of the sequence that are still those of the save
	bytes  int64       // written by all saves behind that have ended
	failed func(error) // receives the errors of early saves
}

// Save writes the KV of ids, which must be the beginning of the sequence, to flash in whole
// pages, and returns the segments that hold it. With durable, they survive a power loss once a
// session that names them is saved. Otherwise Save writes only if at least minTokens tokens are
// not yet saved. An earlier save behind has ended then, and its error is joined.
func (s *Sequence) Save(stores Stores, ids []int32, minTokens int, durable bool) ([]segment.Ref, error) {
	early := s.FinishSave()
	n, store, due := s.planSave(stores, ids, minTokens, durable)
	if !due {
		return s.chain, early
	}
	chain, err := s.kv.PersistState(store, s.ids[:n], s.chain, kv.SaveOptions{Durable: durable, State: markedState(s)})
	s.noteChain(chain)
	return chain, errors.Join(early, err)
}

// SaveBehind is Save without durability, but writes behind the computation, and returns only the
// errors of an earlier save. FinishSave waits for it and returns its own. Without memory for the
// save, SaveBehind writes at once.
func (s *Sequence) SaveBehind(stores Stores, ids []int32, minTokens int) error {
	early := s.FinishSave()
	n, store, due := s.planSave(stores, ids, minTokens, false)
	if !due {
		return early
	}
	err := s.startSave(store, n, kv.SaveOptions{})
	if errors.Is(err, tiering.ErrBudget) {
		_, err = s.Save(stores, ids, minTokens, false)
	}
	return errors.Join(early, err)
}

// SaveSessionBehind is SaveBehind with durability: when the KV of ids is written, it calls commit with
// the segments that hold it, and the error if not all could be written. commit runs on another
// goroutine; its error is that of the save.
func (s *Sequence) SaveSessionBehind(stores Stores, ids []int32, commit func([]segment.Ref, error) error) error {
	early := s.FinishSave()
	n, store, due := s.planSave(stores, ids, 1, true)
	err := tiering.ErrBudget
	if due {
		err = s.startSave(store, n, kv.SaveOptions{Durable: true, Commit: func(chain kv.Chain, err error) error { return commit(chain, err) }})
	}
	if errors.Is(err, tiering.ErrBudget) {
		err = commit(s.Save(stores, ids, 1, true))
	}
	return errors.Join(early, err)
}

// startSave begins to write the first n tokens.
func (s *Sequence) startSave(store *segment.Store, n int, o kv.SaveOptions) error {
	o.State = markedState(s)
	save, err := s.kv.PersistBehind(store, s.ids[:n], s.chain, o)
	s.saving.save, s.saving.tokens = save, n
	return err
}

// FinishSave waits for the save behind and returns its error.
func (s *Sequence) FinishSave() error {
	if s.saving.save == nil {
		return nil
	}
	s.saving.save.Wait()
	return s.pollSave()
}

// pollSave takes the result of the save behind if it has ended.
func (s *Sequence) pollSave() error {
	if s.saving.save == nil {
		return nil
	}
	chain, bytes, ended, err := s.saving.save.Result()
	if !ended {
		return nil
	}
	s.saving.save = nil
	s.saving.bytes += bytes
	s.noteChain(chain.Cut(s.saving.tokens / s.model.cache.PageTokens()))
	return err
}

// SavedBehind returns the bytes that saves behind have written which have ended.
func (s *Sequence) SavedBehind() int64 { return s.saving.bytes }

// planSave returns how many of the tokens a save covers and their store. due is false if it has
// nothing to write.
func (s *Sequence) planSave(stores Stores, ids []int32, minTokens int, durable bool) (n int, store *segment.Store, due bool) {
	if !s.savable() {
		return 0, nil, false
	}
	for n < len(ids) && n < len(s.ids) && ids[n] == s.ids[n] {
		n++
	}
	if s.state != nil { // only the state at the mark is known
		if at := s.state.MarkAt(); at == 0 || at > n {
			return 0, nil, false
		}
		n = s.state.MarkAt()
	}
	store = stores.storeFor(s)
	if !durable && s.Selected() { // a prefix-cache hit must serve exact attention too
		if s.state != nil && n > s.exactTokens {
			return 0, nil, false
		}
		n, store = min(n, s.exactTokens), stores.exact.storeFor(s)
		if len(s.chain) > 0 && s.chainStore != store {
			return 0, nil, false // the chain is that of a session, which covers all tokens
		}
	}
	if s.chainStore != store {
		s.chain, s.chainStore, s.saved = nil, store, 0
	}
	return n, store, durable || n-s.saved >= minTokens
}

// markedState returns the bytes of the recurrent state behind the tokens that a save covers, nil if there is none.
func markedState(s *Sequence) []byte {
	if s.state == nil {
		return nil
	}
	return s.state.Marked()
}

// noteChain records the segments that a save has written.
func (s *Sequence) noteChain(chain kv.Chain) {
	if len(chain) >= len(s.chain) {
		s.chain = chain
		s.saved = max(s.saved, chain.Pages()*s.model.cache.PageTokens())
	}
}

// SaveEarly makes the sequence save its KV during a prefill, without durability. It saves before
// pages spill, so that they are not written twice, and after every saveStep tokens, so that a
// process that ends early does not lose a whole long prefill. It calls failed with errors.
// minTokens is as for Save.
func (s *Sequence) SaveEarly(stores Stores, minTokens int, failed func(error)) {
	s.saving.failed = failed
	s.saveEarly = func(tokens int) {
		s.lastEarlySave = len(s.ids)
		s.reportSave(s.SaveBehind(stores, s.ids[:tokens], minTokens))
	}
}

// reportSave reports the error of an early save.
func (s *Sequence) reportSave(err error) {
	if err != nil && s.saving.failed != nil {
		s.saving.failed(err)
	}
}

// saveStep is the number of tokens between two early saves: four whole segments. A shorter
// prefill is not worth a save.
const saveStep = 4096

// saveBefore runs an early save, if one is due, before n more tokens are computed.
func (s *Sequence) saveBefore(n int) {
	if s.saveEarly == nil {
		return
	}
	s.reportSave(s.pollSave())
	if s.model.cache.Spills(s.kv, len(s.ids)+n) {
		s.saveEarly(len(s.ids))
		return
	}
	if s.saving.save != nil || len(s.ids)-max(s.saved, s.lastEarlySave) < saveStep {
		return
	}
	whole := segment.MaxPages * s.model.cache.PageTokens() // only whole segments
	s.saveEarly(s.saved + (len(s.ids)-s.saved)/whole*whole)
}

// Saved returns how many of the sequence's first tokens are on flash.
func (s *Sequence) Saved() int { return s.saved }
