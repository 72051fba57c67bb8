package exec

import (
	"context"
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/kv/segment"
)

// Stores are the segment stores of a model's saved KV: one for sequences whose tokens all used
// exact attention and, if the model selects pages, one for the others.
type Stores struct{ exact, selected storePair }

// storePair separates sequences by their rotary frequencies, because longrope changes the keys
// of long sequences.
type storePair struct{ short, long *segment.Store }

// OpenStores returns the model's stores in a directory. identity names all that keys and values
// depend on besides the tokens, the KV format and the selection.
func (m *Model) OpenStores(dir *segment.Dir, identity string) (s Stores, err error) {
	about := []string{identity, m.cache.Shape().Format.String()}
	if s.exact, err = openStore(m, dir, about); err == nil && !m.selection.Exact() {
		s.selected, err = openStore(m, dir, append(about, "selected"))
	}
	return s, err
}

// openStore opens the stores of both kinds of rotary frequencies; about names what else the
// keys and values depend on.
func openStore(m *Model, dir *segment.Dir, about []string) (p storePair, err error) {
	layout := m.cache.SegmentLayout()
	if p.short, err = dir.Store(segment.NewKey(layout, about...), layout); err != nil {
		return p, err
	}
	p.long, err = dir.Store(segment.NewKey(layout, append(about, "long")...), layout)
	return p, err
}

// storeFor returns the store for a sequence in its current state.
func (s Stores) storeFor(q *Sequence) *segment.Store {
	if q.Selected() {
		return s.selected.storeFor(q)
	}
	return s.exact.storeFor(q)
}

func (p storePair) storeFor(q *Sequence) *segment.Store {
	if q.longRope {
		return p.long
	}
	return p.short
}

// find returns the store with a key, nil if there is none, and the kind of sequences it holds.
func (s Stores) find(key segment.ID) (store *segment.Store, selected, long bool) {
	for i, pair := range []storePair{s.exact, s.selected} {
		for j, store := range []*segment.Store{pair.short, pair.long} {
			if store != nil && store.Key() == key {
				return store, i == 1, j == 1
			}
		}
	}
	return nil, false, false
}

// Selected reports whether page selection limited the attention of any token of the sequence.
func (s *Sequence) Selected() bool { return s.summaries != nil && s.exactTokens < len(s.ids) }

// savable reports whether the sequence's state consists only of KV pages in the host's memory.
func (s *Sequence) savable() bool { return s.convFrame == nil && s.model.offloadedLayers == nil }

// RestorePrefix looks up the longest saved prefix of ids and, if it is longer than the part of
// ids that the sequence holds, loads it into the sequence. It leaves at least one token to
// compute. It returns how many tokens came from flash. An error names segments that could not be
// used; the sequence remains usable.
func (s *Sequence) RestorePrefix(ctx context.Context, stores Stores, ids []int32) (restored int, err error) {
	if !s.savable() || len(ids) < 2 {
		return 0, nil
	}
	if s.model.mustRePrefill(s, max(len(ids), s.expectedLen)) { // its tokens have the other frequencies
		s.truncateTokens(0)
	}
	store := stores.storeFor(s)
	parts, lookup := store.Lookup(ids[:len(ids)-1])
	restored, err = s.restore(ctx, store, parts, ids, !s.Selected())
	return restored, errors.Join(lookup, err, segment.Close(parts))
}

// restore loads the KV of ids from parts. exact means that their tokens used exact attention.
func (s *Sequence) restore(ctx context.Context, store *segment.Store, parts []segment.Span, ids []int32, exact bool) (int, error) {
	n := 0
	for _, p := range parts {
		n += p.Pages * store.PageTokens()
	}
	held := len(s.ids)
	for i, id := range s.ids[:min(held, n)] {
		if id != ids[i] {
			held = i
			break
		}
	}
	if n <= held {
		return 0, nil
	}
	s.truncateTokens(held)
	chain, err := s.restorePages(ctx, parts, held, n)
	if err != nil {
		var corrupt *segment.CorruptError
		for _, p := range parts {
			if errors.As(err, &corrupt) && corrupt.Path == p.File.Path() {
				err = errors.Join(err, store.Discard(p.File))
			}
		}
		return 0, err
	}
	s.chain, s.chainStore, s.saved = chain, store, n
	if exact && s.exactTokens == held {
		s.exactTokens = n
	}
	s.ids = append(s.ids[:held], ids[held:n]...)
	return n - held, nil
}

// DropDamaged verifies the saved segments whose pages the sequence has on flash. If one is
// damaged, it truncates the sequence before that segment and discards it; the next Save writes
// it again. The error describes the damage; it is nil if all segments are intact.
func (s *Sequence) DropDamaged(stores Stores) error {
	f, page, err := s.kv.Damaged()
	if err == nil {
		return nil
	}
	s.truncateTokens(page * s.model.cache.PageTokens())
	return errors.Join(err, stores.storeFor(s).Discard(f))
}

// restorePages reserves KV for parts and reads them, between two passes, because pages of other
// sequences may have to spill. n is the sequence's length with the parts; it already holds the
// tokens before held.
func (s *Sequence) restorePages(ctx context.Context, parts []segment.Span, held, n int) (kv.Chain, error) {
	m := s.model
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	chain, err := s.kv.Restore(ctx, parts)
	if err != nil || s.summaries == nil {
		return chain, err
	}
	if err := s.restoreSummaries(ctx, n); err != nil {
		s.kv.Truncate(held)
		s.summaries.Truncate(held)
		return nil, err
	}
	return chain, nil
}

// Save writes the KV of ids, which must be the beginning of the sequence, to flash in whole
// pages, and returns the segments that hold it. With durable, they survive a power loss once a
// session that names them is saved. Otherwise Save writes only if at least minTokens tokens are
// not yet saved.
func (s *Sequence) Save(stores Stores, ids []int32, minTokens int, durable bool) ([]segment.Ref, error) {
	if !s.savable() {
		return nil, nil
	}
	n := 0
	for n < len(ids) && n < len(s.ids) && ids[n] == s.ids[n] {
		n++
	}
	store := stores.storeFor(s)
	if !durable && s.Selected() { // a prefix-cache hit must serve exact attention too
		n, store = min(n, s.exactTokens), stores.exact.storeFor(s)
		if len(s.chain) > 0 && s.chainStore != store {
			return s.chain, nil // a session's chain, which covers all tokens
		}
	}
	if s.chainStore != store {
		s.chain, s.chainStore, s.saved = nil, store, 0
	}
	if !durable && n-s.saved < minTokens {
		return s.chain, nil
	}
	chain, err := s.kv.Persist(store, s.ids[:n], s.chain, durable)
	if len(chain) >= len(s.chain) {
		s.chain = chain
		s.saved = max(s.saved, chain.Pages()*s.model.cache.PageTokens())
	}
	return chain, err
}

// SaveEarly makes the sequence save its KV during a prefill, without durability. It saves before
// pages spill, so that they are not written twice, and after every saveStep tokens, so that a
// process that ends early does not lose a whole long prefill. It calls failed with errors.
// minTokens is as for Save.
func (s *Sequence) SaveEarly(stores Stores, minTokens int, failed func(error)) {
	s.saveEarly = func(tokens int) {
		s.lastEarlySave = len(s.ids)
		if _, err := s.Save(stores, s.ids[:tokens], minTokens, false); err != nil {
			failed(err)
		}
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
	if s.model.cache.Spills(s.kv, len(s.ids)+n) {
		s.saveEarly(len(s.ids))
		return
	}
	if len(s.ids)-max(s.saved, s.lastEarlySave) < saveStep {
		return
	}
	whole := segment.MaxPages * s.model.cache.PageTokens() // only whole segments
	s.saveEarly(s.saved + (len(s.ids)-s.saved)/whole*whole)
}

// Saved returns how many of the sequence's first tokens are on flash.
func (s *Sequence) Saved() int { return s.saved }

// RestoreSession loads the KV of a saved session into an empty sequence.
func (s *Sequence) RestoreSession(ctx context.Context, stores Stores, m *segment.Manifest) (err error) {
	if len(m.Segments) == 0 || !s.savable() {
		return nil
	}
	if len(m.Tokens) > s.limit+1 { // the last token may lack its KV
		return fmt.Errorf("%w: the session has %d tokens, the limit is %d", ErrContextFull, len(m.Tokens), s.limit)
	}
	store, selected, long := stores.find(m.Key)
	s.longRope = long
	parts, err := store.OpenSegments(m)
	if err != nil {
		return err
	}
	_, err = s.restore(ctx, store, parts, m.Tokens, !selected)
	return errors.Join(err, segment.Close(parts))
}

// StoreKey returns the key of the store for the sequence's segments.
func (s *Sequence) StoreKey(stores Stores) segment.ID { return stores.storeFor(s).Key() }

// Has reports whether key belongs to one of the model's stores.
func (s Stores) Has(key segment.ID) bool {
	store, _, _ := s.find(key)
	return store != nil
}

// PageTokens returns the tokens of a page on flash.
func (s Stores) PageTokens() int { return s.exact.short.PageTokens() }
