package llmrun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/llmrun/llmrun/kv/segment"
)

// SessionOptions configure OpenSession.
type SessionOptions struct {
	// RePrefill opens a session whose keys and values are missing, damaged or were computed
	// with other settings. The next generation re-prefills its tokens. Notify, if set,
	// receives the reason.
	RePrefill bool
	Notify    func(string)
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
	s, err := e.NewSession()
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	ctx, err := s.begin(context.Background()) // Close waits until end is called
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s.lock = lock // Close releases it
	m, err := lock.Load()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = nil
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

// wrapName makes the error of an invalid name match ErrOptions.
func wrapName(err error) error {
	if errors.Is(err, segment.ErrName) {
		return fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return err
}

// restore makes a new session the saved one.
func (s *Session) restore(ctx context.Context, store *sessionStore, m *segment.Manifest, o SessionOptions) error {
	if m.Identity != store.originID && m.Identity != store.fileID {
		return fmt.Errorf("%w: %s", ErrOtherModel, m.Model)
	}
	if len(m.Tokens) > s.engine.limit+1 { // the last token may be unprocessed
		return fmt.Errorf("%w: the session has %d tokens; the limit is %d", ErrContextFull, len(m.Tokens), s.engine.limit)
	}
	err := fmt.Errorf("%w: %s", ErrOtherSettings, m.Settings)
	if len(m.Segments) == 0 || store.stores.Has(m.Key) { // a session without keys and values matches all settings
		err = s.seq.RestoreSession(ctx, store.stores, m)
	}
	refused := errors.Is(err, ErrOtherSettings) || errors.Is(err, ErrKVMissing) || errors.Is(err, ErrFormat)
	if refused && o.RePrefill {
		if o.Notify != nil {
			o.Notify(fmt.Sprintf("the session is re-prefilled: %v", err))
		}
		err = nil
	}
	s.ids, s.created, s.restored = m.Tokens, m.Created, s.seq.Len()
	for _, msg := range m.Messages {
		s.messages = append(s.messages, Message(msg))
	}
	return err
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
	if s.lock == nil || name != "" && name != s.lock.Name() {
		if err := s.rename(name); err != nil {
			return err
		}
	}
	for range 3 { // another process may make room concurrently
		err = s.save(store)
		if !errors.Is(err, ErrKVMissing) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	store.report(err)
	return s.saveManifest(store, nil)
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
	refs, saveErr := s.seq.Save(store.stores, s.tokens(), 1, true)
	s.mu.Lock()
	s.stats.SavedBytes += store.dir.Written() - before
	s.mu.Unlock()
	if errors.Is(saveErr, ErrNoRoom) {
		store.report(saveErr)
		saveErr = nil
	}
	return errors.Join(saveErr, s.saveManifest(store, refs)) // save the tokens in any case
}

// saveManifest writes the tokens, the messages, and references to their keys and values.
func (s *Session) saveManifest(store *sessionStore, refs []segment.Ref) error {
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
	m := &segment.Manifest{
		Model: info.Path, Settings: settings, Identity: store.originID, Key: s.seq.StoreKey(store.stores),
		Created: s.created, Saved: now, Tokens: ids, Segments: refs, PageTokens: store.stores.PageTokens(),
	}
	for _, msg := range messages {
		m.Messages = append(m.Messages, segment.Message(msg))
	}
	return s.lock.Save(m)
}
