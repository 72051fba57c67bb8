package llmrun

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
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
	originID segment.ID // the model, or that from which the open pack was imported
	older    olderSessions
	// model, identity and adapters are what stores of sessions with adapters are opened with.
	model    *exec.Model
	identity string
	adapters map[string][sha256.Size]byte
	path     string // of the directory
	fsys     vfs.FS // of its files
	keyed    bool   // its files are encrypted
	noWrites bool   // the user wants no writes, and no reports that there are none
	autoSave bool   // save and restore prefixes of prompts
	notify   func(string)

	mu       sync.Mutex
	reported map[string]bool // errors that were reported
}

// kvLimit returns the limit for keys and values in a cache, in bytes.
func kvLimit(cacheSize int64) int64 { return cacheSize / kvCacheDivisor }

// openSessionStore opens the session store. It writes nothing yet.
func (e *Engine) openSessionStore(ctx context.Context, f *modelfile.Files, perTensor *exec.W8A8, opts *Options) error {
	base := opts.sessionDir()
	if base == "" {
		return nil
	}
	store := &sessionStore{path: base, fsys: opts.kvFS(), keyed: opts.kvKey != nil, noWrites: opts.Cache.DailyWrites == NoWrites, autoSave: !opts.Cache.NoKV, notify: opts.Notify, reported: map[string]bool{}}
	model, err := f.Identity(ctx)
	if err != nil {
		return err
	}
	origin, err := f.Origin(ctx)
	if err != nil {
		return err
	}
	copy(store.originID[:], origin[:])
	identity, err := opts.kvIdentity(ctx, string(model[:]), perTensor)
	if err != nil {
		return err
	}
	if store.dir, err = segment.OpenDir(opts.kvFS(), base, kvLimit(opts.Cache.Size)); err != nil {
		if errors.Is(err, ErrNotPrivate) {
			return err
		}
		store.report(err)
		e.storeErr = err
		return nil // a broken cache must not prevent an answer
	}
	if e.writes != nil {
		store.dir.LimitWrites(e.takeWrites)
	}
	if ttl := opts.Cache.KVTTL; ttl > 0 {
		_, err := store.dir.Expire(time.Now().Add(-ttl))
		store.report(err)
	}
	if store.stores, err = e.model.OpenStores(store.dir, identity); err != nil {
		return err
	}
	store.model, store.identity = e.model, identity
	if store.adapters, err = opts.adapterIdentities(ctx); err != nil {
		return err
	}
	if err := store.findOlder(ctx, e.model, f, perTensor, opts); err != nil {
		return err
	}
	e.store = store
	return nil
}

// kvIdentity returns the identity of keys and values: that of the model, and all options that
// change them, except their format.
func (o *Options) kvIdentity(ctx context.Context, model string, perTensor *exec.W8A8) (string, error) {
	identity := model + o.Quantize + "\x00" + fmt.Sprint(o.Exact) + perTensor.Identity()
	if o.usesDevice() { // devices compute slightly different keys and values
		identity += "\x00" + o.Device.Name
	}
	for _, dir := range o.everyAdapters() {
		adapter, err := modelfile.AdapterIdentity(ctx, o.hashes(), o.adapterFS(dir), dir)
		if err != nil {
			return "", err
		}
		identity += string(adapter[:])
	}
	if o.AdaptersBeside { // merged weights round otherwise
		identity += "\x00beside2"
	}
	return identity, nil
}

// openedStore returns the session store, or an error if there is none.
func (e *Engine) openedStore() (*sessionStore, error) {
	e.mu.Lock() // Close may run concurrently
	defer e.mu.Unlock()
	switch {
	case e.store != nil:
		return e.store, nil
	case errors.Is(e.storeErr, ErrClosed):
		return nil, ErrClosed
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
	if store == nil || err == nil || store.notify == nil || store.noWrites && errors.Is(err, ErrWritesSpent) {
		return
	}
	text := fmt.Sprintf("keys and values could not be read from the cache, or not saved there: %v", err)
	about := text
	for _, often := range []error{ErrNoRoom, ErrWritesSpent} {
		if errors.Is(err, often) {
			about = often.Error()
		}
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
	s.finishSave()
	if store == nil || !store.autoSave || s.branch {
		return fresh
	}
	g.writtenBefore = s.seq.SavedBehind()
	s.seq.SaveEarly(s.stores, minNewTokens, store.report)
	if len(fresh) > store.stores.PageTokens() {
		n, err := s.seq.RestorePrefix(ctx, s.stores, g.ids)
		if ctx.Err() == nil {
			store.report(err)
		}
		g.stats.RestoredTokens += n
		fresh = g.ids[s.seq.Len():]
	}
	g.savedTokens = s.seq.Saved()
	return fresh
}

// savePrefix begins to save the session's keys and values to the prefix cache if many of them are
// new. It also saves those of an interrupted prefill, because the caller is likely to repeat the
// call, but not those of a failed one.
func (g *generation) savePrefix(ctx context.Context) {
	s, store := g.session, g.session.engine.store
	if store == nil || !store.autoSave || s.branch || g.firstAt.IsZero() && ctx.Err() == nil || s.isClosed() {
		return
	}
	s.finishSave()
	if s.saves.after && !s.seq.Selected() { // the session is saved, which includes its prefixes
		g.stats.SavedBytes = s.seq.SavedBehind() - g.writtenBefore
		return
	}
	early := s.seq.Saved() - g.savedTokens // count the remaining tokens together with those saved during prefill
	store.report(s.seq.SaveBehind(s.stores, s.seq.IDs(), max(1, minNewTokens-early)))
	g.stats.SavedBytes = s.seq.SavedBehind() - g.writtenBefore
}
