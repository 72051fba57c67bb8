package llmrun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/kv/segment"
	"github.com/llmrun/llmrun/store/vfs"
)

const (
	// minNewTokens is the least number of new tokens for which the engine writes keys and
	// values to the prefix cache.
	minNewTokens = 512
	// kvCacheDivisor limits keys and values to 1/kvCacheDivisor of the cache.
	kvCacheDivisor = 4
)

// Sentinel errors of saved sessions; test for them with errors.Is. A damaged session is an
// ErrFormat.
var (
	// ErrOtherModel reports that the session was saved with another model.
	ErrOtherModel = errors.New("the session belongs to another model")
	// ErrOtherSettings reports that the session was saved with the same model, but with other
	// settings or adapters, so that its keys and values cannot be used. See
	// [SessionOptions].RePrefill.
	ErrOtherSettings = errors.New("the session was saved with other settings")
	// ErrKVMissing reports that some of the session's keys and values have been deleted. See
	// [SessionOptions].RePrefill.
	ErrKVMissing = segment.ErrMissing
)

// sessionStore is the session store and prefix cache of an engine. It is nil without a
// directory.
type sessionStore struct {
	dir      *segment.Dir
	stores   exec.Stores
	originID segment.ID // the original model, from which the open file may have been imported
	fileID   segment.ID // the open file, which older sessions name instead of the original model
	autoSave bool       // save and restore prefixes of prompts
	notify   func(string)

	mu       sync.Mutex
	reported map[string]bool // errors that were reported
}

// kvLimit returns the limit for keys and values in a cache, in bytes.
func kvLimit(cacheSize int64) int64 { return cacheSize / kvCacheDivisor }

// openSessionStore opens the session store. It writes nothing yet.
func (e *Engine) openSessionStore(f *modelfile.Files, perTensor *exec.W8A8, opts *Options) error {
	base := opts.sessionDir()
	if base == "" {
		return nil
	}
	store := &sessionStore{autoSave: !opts.Cache.NoKV, notify: opts.Notify, reported: map[string]bool{}}
	model, err := f.Identity()
	if err != nil {
		return err
	}
	origin, err := f.Origin()
	if err != nil {
		return err
	}
	copy(store.originID[:], origin[:])
	copy(store.fileID[:], model[:])
	identity := string(model[:]) + opts.Quantize + "\x00" + fmt.Sprint(opts.Exact) + perTensor.Identity()
	if opts.usesDevice() { // devices compute slightly different keys and values
		identity += "\x00" + opts.Device.Name
	}
	for _, dir := range opts.Adapters {
		adapter, err := modelfile.AdapterIdentity(opts.fsys(), dir)
		if err != nil {
			return err
		}
		identity += string(adapter[:])
	}
	if store.dir, err = segment.OpenDir(opts.Lab.Disk.throttle(vfs.OS()), base, kvLimit(opts.Cache.Size)); err != nil {
		store.report(err)
		e.storeErr = err
		return nil // a broken cache must not prevent an answer
	}
	if store.stores, err = e.model.OpenStores(store.dir, identity); err != nil {
		return err
	}
	e.store = store
	return nil
}

// openedStore returns the session store, or an error if there is none.
func (e *Engine) openedStore() (*sessionStore, error) {
	e.mu.Lock() // Close may run concurrently
	defer e.mu.Unlock()
	switch {
	case e.store != nil:
		return e.store, nil
	case e.storeErr != nil:
		return nil, fmt.Errorf("the session store cannot be opened: %w", e.storeErr)
	}
	return nil, fmt.Errorf("%w: saved sessions need Cache.Dir or Cache.KVDir, and neither is set", ErrOptions)
}

// close closes the directory.
func (store *sessionStore) close() error {
	if store == nil {
		return nil
	}
	return store.dir.Close()
}

// report notifies the user once of an error in the background. Full disks cause many errors
// with different sizes, of which it reports only the first.
func (store *sessionStore) report(err error) {
	if err == nil || store.notify == nil {
		return
	}
	text := fmt.Sprintf("keys and values could not be read from the cache, or not saved there: %v", err)
	about := text
	if errors.Is(err, ErrNoRoom) {
		about = ErrNoRoom.Error()
	}
	store.mu.Lock()
	known := store.reported[about]
	store.reported[about] = true
	store.mu.Unlock()
	if !known {
		store.notify(text)
	}
}

// restorePrefix restores the longest prefix of the prompt from the prefix cache, and returns
// the remaining tokens.
func (g *generation) restorePrefix(ctx context.Context, fresh []int32) []int32 {
	s, store := g.session, g.session.engine.store
	if store == nil || !store.autoSave {
		return fresh
	}
	g.writtenBefore = store.dir.Written()
	s.seq.SaveEarly(store.stores, minNewTokens, store.report)
	if len(fresh) > store.stores.PageTokens() {
		n, err := s.seq.RestorePrefix(ctx, store.stores, g.ids)
		if ctx.Err() == nil {
			store.report(err)
		}
		g.stats.RestoredTokens += n
		fresh = g.ids[s.seq.Len():]
	}
	g.savedTokens = s.seq.Saved()
	return fresh
}

// savePrefix saves the session's keys and values to the prefix cache if many of them are new.
// It also saves those of an interrupted prefill, because the caller is likely to repeat the
// call, but not those of a failed one.
func (g *generation) savePrefix(ctx context.Context) {
	s, store := g.session, g.session.engine.store
	if store == nil || !store.autoSave || g.firstAt.IsZero() && ctx.Err() == nil || s.isClosed() {
		return
	}
	early := s.seq.Saved() - g.savedTokens // count the remaining tokens together with those saved during prefill
	_, err := s.seq.Save(store.stores, s.seq.IDs(), max(1, minNewTokens-early), false)
	store.report(err)
	g.stats.SavedBytes = store.dir.Written() - g.writtenBefore
}

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
