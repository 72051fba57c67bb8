package llmrun

import (
	"context"
	"errors"
	"fmt"
	"sync"

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
	identity, err := opts.kvIdentity(string(model[:]), perTensor)
	if err != nil {
		return err
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

// kvIdentity returns the identity of keys and values: that of the model, and all options that
// change them, except their format.
func (o *Options) kvIdentity(model string, perTensor *exec.W8A8) (string, error) {
	identity := model + o.Quantize + "\x00" + fmt.Sprint(o.Exact) + perTensor.Identity()
	if o.usesDevice() { // devices compute slightly different keys and values
		identity += "\x00" + o.Device.Name
	}
	for _, dir := range o.Adapters {
		adapter, err := modelfile.AdapterIdentity(o.fsys(), dir)
		if err != nil {
			return "", err
		}
		identity += string(adapter[:])
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
