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
	// minNewTokens is how many tokens have to be new before keys and values are
	// written without being asked for.
	minNewTokens = 512
	// kvCacheDivisor is the part of a cache that keys and values may take, as
	// 1/kvCacheDivisor.
	kvCacheDivisor = 4
)

// What may be wrong with a session that was kept, to be found with errors.Is. One
// that is damaged is an ErrFormat.
var (
	// ErrOtherModel: the session was kept with another model.
	ErrOtherModel = errors.New("the session belongs to another model")
	// ErrOtherSettings: the session was kept with the same model, but with other
	// settings or adapters, so that what it remembers cannot be used. Its text can,
	// see [SessionOptions].
	ErrOtherSettings = errors.New("the session was kept with other settings")
	// ErrKVMissing: some of what the session remembers has been deleted. Its text
	// can be read again, see [SessionOptions].
	ErrKVMissing = segment.ErrMissing
)

// sessionStore is where an engine keeps what its sessions remember; nil: nowhere.
type sessionStore struct {
	dir      *segment.Dir
	stores   exec.Stores
	originID segment.ID // of the model, whatever was made from it
	fileID   segment.ID // of the file that is in use; older sessions have it for the origin
	autoSave bool       // prompts are kept and found without being asked for
	notify   func(string)

	mu       sync.Mutex
	reported map[string]bool // notices that were given
}

// kvLimit returns how many bytes of keys and values a cache may hold.
func kvLimit(cacheSize int64) int64 { return cacheSize / kvCacheDivisor }

// openSessionStore prepares for keeping what sessions remember. Nothing is written yet.
func (e *Engine) openSessionStore(f *modelfile.Files, perTensor *exec.W8A8, opts *Options) error {
	base := opts.sessionDir()
	if base == "" {
		return nil
	}
	k := &sessionStore{autoSave: !opts.Cache.NoKV, notify: opts.Notify, reported: map[string]bool{}}
	model, err := f.Identity()
	if err != nil {
		return err
	}
	origin, err := f.Origin()
	if err != nil {
		return err
	}
	copy(k.originID[:], origin[:])
	copy(k.fileID[:], model[:])
	identity := string(model[:]) + opts.Quantize + "\x00" + fmt.Sprint(opts.Exact) + perTensor.Identity()
	if opts.usesDevice() { // devices round otherwise
		identity += "\x00" + opts.Device.Name
	}
	for _, dir := range opts.Adapters {
		adapter, err := modelfile.AdapterIdentity(opts.fsys(), dir)
		if err != nil {
			return err
		}
		identity += string(adapter[:])
	}
	if k.dir, err = segment.OpenDir(opts.Lab.Disk.throttle(vfs.OS()), base, kvLimit(opts.Cache.Size)); err != nil {
		k.report(err)
		e.storeErr = err
		return nil // as for packs: nobody needs a cache as badly as an answer
	}
	if k.stores, err = e.model.OpenStores(k.dir, identity); err != nil {
		return err
	}
	e.store = k
	return nil
}

// openedStore returns where sessions are kept, or says why they are not.
func (e *Engine) openedStore() (*sessionStore, error) {
	e.mu.Lock() // Close may be at work
	defer e.mu.Unlock()
	switch {
	case e.store != nil:
		return e.store, nil
	case e.storeErr != nil:
		return nil, fmt.Errorf("sessions cannot be kept: %w", e.storeErr)
	}
	return nil, fmt.Errorf("%w: sessions are kept in CacheDir or KVDir, and neither is set", ErrOptions)
}

// close gives the directory back.
func (k *sessionStore) close() error {
	if k == nil {
		return nil
	}
	return k.dir.Close()
}

// report passes on what went wrong with something that was not asked for, once. For want
// of room much goes wrong, each time with other figures: only the first are told.
func (k *sessionStore) report(err error) {
	if err == nil || k.notify == nil {
		return
	}
	text := fmt.Sprintf("keys and values are computed instead of read from flash, or not kept there: %v", err)
	about := text
	if errors.Is(err, ErrNoRoom) {
		about = ErrNoRoom.Error()
	}
	k.mu.Lock()
	told := k.reported[about]
	k.reported[about] = true
	k.mu.Unlock()
	if !told {
		k.notify(text)
	}
}

// restorePrefix looks for what was read of the prompt ids before, in any session, and
// returns what is left to read of fresh.
func (g *generation) restorePrefix(ctx context.Context, fresh []int32) []int32 {
	s, k := g.session, g.session.engine.store
	if k == nil || !k.autoSave {
		return fresh
	}
	g.writtenBefore = k.dir.Written()
	s.seq.SaveEarly(k.stores, minNewTokens, k.report)
	if len(fresh) > k.stores.PageTokens() {
		n, err := s.seq.RestorePrefix(ctx, k.stores, g.ids)
		if ctx.Err() == nil {
			k.report(err)
		}
		g.stats.RestoredTokens += n
		fresh = g.ids[s.seq.Len():]
	}
	g.savedTokens = s.seq.Saved()
	return fresh
}

// savePrefix writes what the session remembers to flash, if much of it is new. That of a prompt
// whose reading was interrupted is as good: it will be asked for again. After a failure
// nobody knows.
func (g *generation) savePrefix(ctx context.Context) {
	s, k := g.session, g.session.engine.store
	if k == nil || !k.autoSave || g.firstAt.IsZero() && ctx.Err() == nil || s.isClosed() {
		return
	}
	early := s.seq.Saved() - g.savedTokens // what is left counts together with it
	_, err := s.seq.Save(k.stores, s.seq.IDs(), max(1, minNewTokens-early), false)
	k.report(err)
	g.stats.SavedBytes = k.dir.Written() - g.writtenBefore
}

// SessionOptions say what to do with a session that was kept.
type SessionOptions struct {
	// RePrefill uses the text alone of a session whose keys and values cannot be used
	// because they are missing, damaged, or were computed with other settings: it
	// is read again with the next generation. Notify, if set, is told why.
	RePrefill bool
	Notify    func(string)
}

// OpenSession opens the session that was kept under a name, as it was when it was
// saved, or an empty one if there is none; see [Session.Save]. Names consist of
// letters, digits, dots, dashes and underscores. A name that is in use, here or in
// another process, is refused with ErrLocked at once. A session that does not
// belong to this model, or is damaged, is refused and not used: the error wraps
// ErrOtherModel, ErrOtherSettings, ErrKVMissing or ErrFormat. Pages that stay on
// flash are looked at later: if one is damaged, Options.Notify is told, and the text is
// read again from there on. It needs Options.CacheDir or KVDir.
func (e *Engine) OpenSession(name string, o SessionOptions) (*Session, error) {
	k, err := e.openedStore()
	if err != nil {
		return nil, err
	}
	lock, err := k.dir.LockSession(name)
	if err != nil {
		return nil, wrapName(err)
	}
	s, err := e.NewSession()
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	ctx, err := s.begin(context.Background()) // Close waits for what is to come
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s.lock = lock // Close gives it back
	m, err := lock.Load()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	case err == nil:
		err = s.restore(ctx, k, m, o)
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

// wrapName makes a name that is refused an invalid option.
func wrapName(err error) error {
	if errors.Is(err, segment.ErrName) {
		return fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return err
}

// restore makes a new session what m says.
func (s *Session) restore(ctx context.Context, k *sessionStore, m *segment.Manifest, o SessionOptions) error {
	if m.Identity != k.originID && m.Identity != k.fileID {
		return fmt.Errorf("%w: %s", ErrOtherModel, m.Model)
	}
	if len(m.Tokens) > s.engine.limit+1 { // the last one may not have been read
		return fmt.Errorf("%w: the session has %d tokens, at most %d are read", ErrContextFull, len(m.Tokens), s.engine.limit)
	}
	err := fmt.Errorf("%w: %s", ErrOtherSettings, m.Settings)
	if len(m.Segments) == 0 || k.stores.Has(m.Key) { // a text alone goes with all settings
		err = s.seq.RestoreSession(ctx, k.stores, m)
	}
	refused := errors.Is(err, ErrOtherSettings) || errors.Is(err, ErrKVMissing) || errors.Is(err, ErrFormat)
	if refused && o.RePrefill {
		if o.Notify != nil {
			o.Notify(fmt.Sprintf("the session's text is read again: %v", err))
		}
		err = nil
	}
	s.ids, s.created, s.restored = m.Tokens, m.Created, s.seq.Len()
	for _, msg := range m.Messages {
		s.messages = append(s.messages, Message(msg))
	}
	return err
}

// Save keeps the session under a name, for OpenSession: its text, its messages and
// what the model remembers of them. Where there is no room for all that it remembers,
// the rest is left out, to be read again, and Options.Notify is told; the text alone is
// kept where others take the room again and again. When Save has
// returned nil, what was kept survives even a loss of power; when it does not come to
// its end, what was kept under the name before is still there, or all of the new. An
// empty name is that under which the session was opened or saved. A session keeps its
// name until it is closed; a name that another session has, in use or not, is refused
// with ErrLocked or an error that wraps fs.ErrExist.
func (s *Session) Save(name string) error {
	k, err := s.engine.openedStore()
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
	for range 3 { // somebody else may make room at the same moment
		err = s.save(k)
		if !errors.Is(err, ErrKVMissing) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	k.report(err)
	return s.saveText(k, nil)
}

// rename takes a name that no session has.
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
		err = fmt.Errorf("%w: there is a session %s already", fs.ErrExist, name)
	}
	return errors.Join(err, lock.Close())
}

// save writes what the model remembers, as far as there is room, and the text.
func (s *Session) save(k *sessionStore) error {
	before := k.dir.Written()
	refs, unkept := s.seq.Save(k.stores, s.tokens(), 1, true)
	s.mu.Lock()
	s.stats.SavedBytes += k.dir.Written() - before
	s.mu.Unlock()
	if errors.Is(unkept, ErrNoRoom) {
		k.report(unkept)
		unkept = nil
	}
	return errors.Join(unkept, s.saveText(k, refs)) // the text is kept in any case
}

// saveText writes the text and the messages, and where keys and values of them are.
func (s *Session) saveText(k *sessionStore, refs []segment.Ref) error {
	s.mu.Lock()
	text, messages := s.ids, s.messages
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
		Model: info.Path, Settings: settings, Identity: k.originID, Key: s.seq.StoreKey(k.stores),
		Created: s.created, Saved: now, Tokens: text, Segments: refs, PageTokens: k.stores.PageTokens(),
	}
	for _, msg := range messages {
		m.Messages = append(m.Messages, segment.Message(msg))
	}
	return s.lock.Save(m)
}
