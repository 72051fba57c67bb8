package llmrun

import (
	"context"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/kv/segment"
)

// olderSessions finds the model of a session that an older llmrun saved. It knew the model's
// files by their names and samples of their content, and a pack by its index.
type olderSessions struct {
	sampled func() ([32]byte, error)
	pack    segment.ID  // the open pack; zero without one
	stores  exec.Stores // of keys and values that were computed from the open pack
}

// findOlder prepares the use of older sessions.
func (store *sessionStore) findOlder(ctx context.Context, model *exec.Model, f *modelfile.Files, perTensor *exec.W8A8, opts *Options) error {
	store.older.sampled = f.SampledOrigin()
	p := f.Packed()
	if p == nil {
		return nil
	}
	index := p.Identity()
	copy(store.older.pack[:], index[:])
	identity, err := opts.kvIdentity(ctx, string(index[:]), perTensor)
	if err == nil {
		store.older.stores, err = exec.AddStores(model, store.dir, identity)
	}
	return err
}

// owns reports whether a session belongs to the model. doubtful means that only names and
// samples of the files prove it: the session's text can be used, but its keys and values may
// be those of other weights.
func (store *sessionStore) owns(m *segment.Manifest) (owns, doubtful bool, err error) {
	if m.Identity == store.originID || m.Identity == store.older.pack {
		return true, false, nil
	}
	sampled, err := store.older.sampled()
	var id segment.ID
	copy(id[:], sampled[:])
	return err == nil && id == m.Identity, true, err
}

// storesOf returns the stores that hold the keys and values of a session.
func (s *Session) storesOf(m *segment.Manifest) (stores exec.Stores, known bool) {
	for _, stores := range []exec.Stores{s.stores, s.engine.store.older.stores} {
		if stores.Has(m.Key) {
			return stores, true
		}
	}
	return s.stores, false
}
