package llmrun

import (
	"context"
	"errors"
	"time"

	"github.com/llmrun/llmrun/kv/segment"
)

// sessionSaves is the state of saves behind the computation. The goroutine that set running owns it.
type sessionSaves struct {
	after    bool  // the session is saved after each generation
	running  bool  // the save in flight is one of the session, not of the prefix cache
	failed   error // of earlier saves of the session; the next Flush, Save or Close returns it
	fullDisk error // set by the save in flight: there was no room for all keys and values
}

// Flush waits until what is being written of the session is written: keys and values for the prefix
// cache, and with [SessionOptions].SaveBehind the session itself. Stats then counts them. It returns
// why the session could not be saved; errors of the prefix cache are reported to Options.Notify.
// During a generation Flush returns ErrBusy.
func (s *Session) Flush() error {
	if _, err := s.begin(context.Background()); err != nil {
		return err
	}
	defer s.end()
	s.flush()
	return s.takeUnsaved()
}

// flush waits for saves and counts what they have written.
func (s *Session) flush() {
	before := s.seq.SavedBehind()
	s.finishSave()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.SavedBytes += s.seq.SavedBehind() - before
}

// finishSave waits for the save in flight.
func (s *Session) finishSave() {
	err, store := s.seq.FinishSave(), s.engine.store
	if !s.saves.running {
		store.report(err)
		return
	}
	s.saves.running = false
	store.report(s.saves.fullDisk)
	if isMissing(err) {
		err = s.saveNow(store)
	}
	s.saves.failed = errors.Join(s.saves.failed, err)
}

// takeUnsaved returns and forgets the errors of saves behind.
func (s *Session) takeUnsaved() error {
	err := s.saves.failed
	s.saves.failed = nil
	return err
}

// saveBehind begins to save the session under its name.
func (s *Session) saveBehind() {
	store, ids := s.engine.store, s.tokens()
	if len(ids) == 0 || s.isClosed() {
		return
	}
	s.flush()
	m, saves := s.manifest(store), &s.saves
	saves.running, saves.fullDisk = true, nil
	err := s.seq.SaveSessionBehind(s.stores, ids, func(refs []segment.Ref, err error) error {
		if isFullDisk(err) {
			saves.fullDisk, err = err, nil
		}
		m.Segments, m.Saved = refs, time.Now()
		return errors.Join(err, s.lock.Save(m)) // save the tokens in any case
	})
	saves.failed = errors.Join(saves.failed, err)
}
