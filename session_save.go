package llmrun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/llmrun/llmrun/kv/segment"
)

// SessionOptions configure OpenSession.
type SessionOptions struct {
	// RePrefill opens a session whose keys and values are missing, damaged or were computed
	// with other settings. The next generation re-prefills its tokens. Notify, if set,
	// receives the reason. A session that an older llmrun saved may be re-prefilled in any
	// case. Notify also tells of a new name in a directory with sessions that are ignored
	// because of Cache.KeyFile.
	RePrefill bool
	Notify    func(string)
	// SaveBehind saves the session under its name after each generation, while the program goes
	// on. The next generation, Flush, Save and Close wait until it is saved as Save saves it. The
	// last three return the error if it failed.
	SaveBehind bool
	// Adapters are those of the session, as [Session.UseAdapters] takes them. nil means the ones with which
	// it was saved, or Options.SessionAdapters for a new session; an empty slice means none. With other adapters
	// than before, the next generation re-prefills the session's tokens.
	Adapters []string
}

func (o *SessionOptions) notify(text string) {
	if o.Notify != nil {
		o.Notify(text)
	}
}

// OpenSession opens the session that was saved under a name, or an empty session if there is
// none; see [Session.Save]. It needs CacheOptions.Dir or KVDir. A name consists of letters,
// digits, dots, dashes and underscores.
//
// OpenSession returns ErrLocked if the session is in use, here or in another process. If the
// session does not match the model, or is damaged, the error wraps ErrOtherModel,
// ErrOtherSettings, ErrKVMissing or ErrFormat. Pages that stay on flash are verified when
// attention reads them: if one is damaged, the engine reports it to Options.Notify and
// re-prefills from there.
func (e *Engine) OpenSession(name string, o SessionOptions) (*Session, error) {
	store, err := e.openedStore()
	if err != nil {
		return nil, err
	}
	lock, err := store.dir.LockSession(name)
	if err != nil {
		return nil, wrapName(err)
	}
	s, err := e.newSession()
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	ctx, err := s.begin(context.Background()) // Close waits until end is called
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s.lock, s.saves.after = lock, o.SaveBehind // Close releases the lock
	m, err := lock.Load()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		var text string
		if text, err = store.foreignSessions(name); text != "" {
			o.notify(text)
		}
		err = errors.Join(err, s.useAdapters(orElse(o.Adapters, e.sessionAdapters)))
	case err == nil:
		err = s.restore(ctx, store, m, o)
	}
	s.end()
	if s.isClosed() {
		return nil, ErrClosed
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("session %s: %w", name, err), s.Close())
	}
	return s, nil
}

// restoreAdapters chooses the adapters of a saved session.
func (s *Session) restoreAdapters(m *segment.Manifest, o *SessionOptions) error {
	err := s.useAdapters(orElse(o.Adapters, m.Adapters))
	if errors.Is(err, ErrNoAdapter) && o.Adapters == nil {
		err = fmt.Errorf("it was saved with the adapters %s: %w", strings.Join(m.Adapters, " "), err)
	}
	return err
}

// orElse returns a list, or another one if it is nil.
func orElse(list, other []string) []string {
	if list != nil {
		return list
	}
	return other
}

// wrapName makes the error of an invalid name match ErrOptions.
func wrapName(err error) error {
	if errors.Is(err, segment.ErrName) {
		return fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return err
}

// restore makes a new session the saved one.
func (s *Session) restore(ctx context.Context, store *sessionStore, m *segment.Manifest, o SessionOptions) error {
	owns, doubtful, err := store.owns(m)
	if err != nil {
		return err
	}
	if !owns {
		return fmt.Errorf("%w: %s", ErrOtherModel, m.Model)
	}
	if len(m.Tokens) > s.engine.limit+1 { // the last token may be unprocessed
		return &ContextFullError{Tokens: len(m.Tokens), Limit: s.engine.limit}
	}
	if err := s.restoreAdapters(m, &o); err != nil {
		return err
	}
	stores, known := s.storesOf(m)
	switch {
	case !slices.Equal(m.Adapters, s.Adapters()):
		o.notify("the session is re-prefilled with other adapters")
	case doubtful:
		o.notify("the session is re-prefilled, because an older llmrun saved it, which did not check all of the model")
	case known, len(m.Segments) == 0: // a session without keys and values matches all settings
		err = s.seq.RestoreSession(ctx, stores, m)
	default:
		err = fmt.Errorf("%w: %s", ErrOtherSettings, m.Settings)
	}
	refused := errors.Is(err, ErrOtherSettings) || errors.Is(err, ErrKVMissing) || errors.Is(err, ErrFormat)
	if refused && o.RePrefill {
		o.notify(fmt.Sprintf("the session is re-prefilled: %v", err))
		err = nil
	}
	s.ids, s.created, s.restored = m.Tokens, m.Created, s.seq.Len()
	messages, broken := savedMessages(m)
	s.messages = messages
	return errors.Join(err, broken)
}

// Save saves the session under a name, for OpenSession: its tokens, messages, keys and
// values. An empty name means the name under which the session was opened or last saved.
//
// If there is no room for all keys and values, Save omits the rest, which are re-prefilled
// later, and reports that to Options.Notify. If other processes keep taking the room, it
// saves the tokens and messages only. If Save returns nil, the saved session survives a power
// failure. If Save is interrupted, the name holds either the previous or the new session.
//
// The session keeps its name until it is closed. Save returns ErrLocked, or an error that
// wraps fs.ErrExist, if another session has the name.
func (s *Session) Save(name string) error {
	store, err := s.engine.openedStore()
	if err != nil {
		return err
	}
	if _, err := s.begin(context.Background()); err != nil {
		return err
	}
	defer s.end()
	s.flush() // it uses the name
	if s.lock == nil || name != "" && name != s.lock.Name() {
		if err := s.rename(name); err != nil {
			return err
		}
	}
	if err := s.saveNow(store); err != nil {
		return errors.Join(err, s.takeUnsaved())
	}
	s.saves.failed = nil // what could not be saved is saved now
	return nil
}

// saveNow saves the session under its name.
func (s *Session) saveNow(store *sessionStore) (err error) {
	for range 3 { // another process may make room concurrently
		err = s.save(store)
		if !isMissing(err) {
			return err
		}
	}
	store.report(err)
	return s.lock.Save(s.manifest(store))
}

// isMissing reports whether another process has removed segments before they were pinned.
func isMissing(err error) bool {
	return errors.Is(err, ErrKVMissing) || errors.Is(err, fs.ErrNotExist)
}

// rename gives the session a name that no other session has.
func (s *Session) rename(name string) error {
	lock, err := s.engine.store.dir.LockSession(name)
	if err != nil {
		return wrapName(err)
	}
	_, err = lock.Load()
	if errors.Is(err, fs.ErrNotExist) {
		if s.lock != nil {
			err = s.lock.Close()
		} else {
			err = nil
		}
		s.lock, s.created = lock, time.Time{}
		return err
	}
	if err == nil {
		err = fmt.Errorf("%w: a session %s already exists", fs.ErrExist, name)
	}
	return errors.Join(err, lock.Close())
}

// save writes the tokens, the messages, and as many keys and values as there is room for.
func (s *Session) save(store *sessionStore) error {
	before := store.dir.Written()
	refs, saveErr := s.seq.Save(s.stores, s.tokens(), 1, true)
	s.mu.Lock()
	s.stats.SavedBytes += store.dir.Written() - before
	s.mu.Unlock()
	if isFullDisk(saveErr) {
		store.report(saveErr)
		saveErr = nil
	}
	m := s.manifest(store)
	m.Segments = refs
	return errors.Join(saveErr, s.lock.Save(m)) // save the tokens in any case
}

// isFullDisk reports whether a save omits keys and values for which there is no room.
func isFullDisk(err error) bool { return errors.Is(err, ErrNoRoom) || errors.Is(err, ErrWritesSpent) }

// manifest returns the tokens and the messages of the session, without keys and values.
func (s *Session) manifest(store *sessionStore) *segment.Manifest {
	s.mu.Lock()
	ids, messages := s.ids, s.messages
	s.mu.Unlock()
	now := time.Now()
	if s.created.IsZero() {
		s.created = now
	}
	info := &s.engine.info
	settings := "kv " + info.KV
	if s.seq.Selected() {
		settings += ", selected"
	}
	adapters := s.Adapters()
	if len(adapters) > 0 {
		settings += ", adapters " + strings.Join(adapters, " ")
	}
	m := &segment.Manifest{
		Adapters: adapters,
		Model:    info.Path, Settings: settings, Identity: store.originID, Key: s.seq.StoreKey(s.stores),
		Created: s.created, Saved: now, Tokens: ids, PageTokens: store.stores.PageTokens(),
	}
	saveMessages(m, messages)
	return m
}
