package exec

import (
	"context"
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/kv/segment"
)

// Stores are where a model keeps what it remembers of texts: those of whose tokens all
// looked at everything before them and, if the model selects, others.
type Stores struct{ exact, selected storePair }

// A model that rotates long texts by other frequencies remembers them otherwise, so it
// has two stores.
type storePair struct{ short, long *segment.Store }

// OpenStores returns the model's stores in a directory. identity is all that keys and
// values depend on besides their format, the tokens, and what these looked at.
func (m *Model) OpenStores(dir *segment.Dir, identity string) (s Stores, err error) {
	about := []string{identity, m.cache.Shape().Format.String()}
	if s.exact, err = openStore(m, dir, about); err == nil && !m.selection.Exact() {
		s.selected, err = openStore(m, dir, append(about, "selected"))
	}
	return s, err
}

func openStore(m *Model, dir *segment.Dir, about []string) (p storePair, err error) {
	layout := m.cache.SegmentLayout()
	if p.short, err = dir.Store(segment.NewKey(layout, about...), layout); err != nil {
		return p, err
	}
	p.long, err = dir.Store(segment.NewKey(layout, append(about, "long")...), layout)
	return p, err
}

// of returns the store for a sequence as it is.
func (s Stores) of(q *Sequence) *segment.Store {
	if q.Selected() {
		return s.selected.of(q)
	}
	return s.exact.of(q)
}

func (p storePair) of(q *Sequence) *segment.Store {
	if q.long {
		return p.long
	}
	return p.short
}

// find returns the store that has a key, nil if there is none, and for which sequences
// it is.
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

// Selected reports whether a token of the sequence looked at what a selection took only.
func (s *Sequence) Selected() bool { return s.summaries != nil && s.exact < len(s.ids) }

// savable reports whether what the sequence remembers consists of pages alone, all of them
// in the machine's memory.
func (s *Sequence) savable() bool { return s.convFrame == nil && s.model.offloadedLayers == nil }

// RestorePrefix looks for keys and values of a text on flash, and makes the sequence
// hold its longest beginning that is there, if that is more than it holds already
// of it. At least one token is left to read. It returns how many tokens came from
// flash. An error says what could not be used; the sequence can be, as it is then.
func (s *Sequence) RestorePrefix(ctx context.Context, stores Stores, ids []int32) (recalled int, err error) {
	if !s.savable() || len(ids) < 2 {
		return 0, nil
	}
	if s.model.mustRePrefill(s, max(len(ids), s.expect)) { // what is there is of no use
		expect := s.expect
		s.Truncate(0)
		s.expect, s.long = expect, true
	}
	store := stores.of(s)
	parts, lookup := store.Lookup(ids[:len(ids)-1])
	recalled, err = s.restore(ctx, store, parts, ids, !s.Selected())
	return recalled, errors.Join(lookup, err, segment.Close(parts))
}

// restore makes the sequence hold what parts hold of ids. exact: their tokens looked at
// everything.
func (s *Sequence) restore(ctx context.Context, store *segment.Store, parts []segment.Part, ids []int32, exact bool) (int, error) {
	n := 0
	for _, p := range parts {
		n += p.Pages * store.PageTokens()
	}
	had := len(s.ids)
	for i, id := range s.ids[:min(had, n)] {
		if id != ids[i] {
			had = i
			break
		}
	}
	if n <= had {
		return 0, nil
	}
	expect, long := s.expect, s.long
	s.Truncate(had)
	s.expect, s.long = expect, long
	chain, err := s.fill(ctx, parts, had, n)
	if err != nil {
		var corrupt *segment.CorruptError
		for _, p := range parts {
			if errors.As(err, &corrupt) && corrupt.Path == p.File.Path() {
				err = errors.Join(err, store.Discard(p.File))
			}
		}
		return 0, err
	}
	s.chain, s.chainIn, s.saved = chain, store, n
	if exact && s.exact == had {
		s.exact = n
	}
	s.ids = append(s.ids[:had], ids[had:n]...)
	return n - had, nil
}

// DropDamaged looks for a kept chunk that is not what was written, among those whose
// pages stay on flash. The sequence forgets what lies in it and all behind, and the chunk
// is removed, or written anew when it is kept next. The error says what was wrong; it is
// nil if nothing is.
func (s *Sequence) DropDamaged(stores Stores) error {
	f, page, err := s.kv.Damaged()
	if err == nil {
		return nil
	}
	expect, long := s.expect, s.long
	s.Truncate(page * s.model.cache.PageTokens())
	s.expect, s.long = expect, long
	return errors.Join(err, stores.of(s).Discard(f))
}

// fill makes room for parts and reads them, between two passes: pages of others may
// have to go to flash. Of n tokens in all the sequence has those before had.
func (s *Sequence) fill(ctx context.Context, parts []segment.Part, had, n int) (kv.Chain, error) {
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
	if err := s.summarizeTo(ctx, n); err != nil {
		s.kv.Truncate(had)
		s.summaries.Truncate(had)
		return nil, err
	}
	return chain, nil
}

// Save writes to flash what the sequence remembers of ids, with which it begins,
// in whole pages, and returns the chunks that hold them. Durable ones survive power
// loss once a session was saved that names them; others are written only if least
// tokens or more are not kept in any chunk.
func (s *Sequence) Save(stores Stores, ids []int32, least int, durable bool) ([]segment.Ref, error) {
	if !s.savable() {
		return nil, nil
	}
	n := 0
	for n < len(ids) && n < len(s.ids) && ids[n] == s.ids[n] {
		n++
	}
	store := stores.of(s)
	if !durable && s.Selected() { // who finds it by its text alone may look at everything
		n, store = min(n, s.exact), stores.exact.of(s)
		if len(s.chain) > 0 && s.chainIn != store {
			return s.chain, nil // a session's, which has all
		}
	}
	if s.chainIn != store {
		s.chain, s.chainIn, s.saved = nil, store, 0
	}
	if !durable && n-s.saved < least {
		return s.chain, nil
	}
	chain, err := s.kv.Persist(store, s.ids[:n], s.chain, durable)
	if len(chain) >= len(s.chain) {
		s.chain = chain
		s.saved = max(s.saved, chain.Pages()*s.model.cache.PageTokens())
	}
	return chain, err
}

// SaveEarly makes the sequence keep what it remembers, as Keep does for something
// that was not asked for, while it reads: before it would go to flash in any case, so
// that what is kept is not written a second time, and whenever that are saveStep tokens
// more, so that not all of a long text is lost with the process. failed is told what
// went wrong.
func (s *Sequence) SaveEarly(stores Stores, least int, failed func(error)) {
	s.early = func(tokens int) {
		s.tried = len(s.ids)
		if _, err := s.Save(stores, s.ids[:tokens], least, false); err != nil {
			failed(err)
		}
	}
}

// saveStep is after how many tokens what a sequence remembers is kept while it is read:
// four whole chunks. Who has read less than that has not much to lose.
const saveStep = 4096

// saveBefore keeps what is due before n more tokens are read.
func (s *Sequence) saveBefore(n int) {
	if s.early == nil {
		return
	}
	if s.model.cache.Spills(s.kv, len(s.ids)+n) {
		s.early(len(s.ids))
		return
	}
	if len(s.ids)-max(s.saved, s.tried) < saveStep {
		return
	}
	whole := segment.MaxPages * s.model.cache.PageTokens() // no chunk is left half full
	s.early(s.saved + (len(s.ids)-s.saved)/whole*whole)
}

// Saved returns how many of the sequence's first tokens are kept on flash.
func (s *Sequence) Saved() int { return s.saved }

// RestoreSession makes an empty sequence hold what a session's chunks hold of its
// text.
func (s *Sequence) RestoreSession(ctx context.Context, stores Stores, m *segment.Manifest) (err error) {
	if len(m.Segments) == 0 || !s.savable() {
		return nil
	}
	if len(m.Tokens) > s.limit+1 { // the last one may not have been read
		return fmt.Errorf("%w: the session has %d tokens, at most %d are read", ErrContextFull, len(m.Tokens), s.limit)
	}
	store, selected, long := stores.find(m.Key)
	s.long = long
	parts, err := store.OpenSegments(m)
	if err != nil {
		return err
	}
	_, err = s.restore(ctx, store, parts, m.Tokens, !selected)
	return errors.Join(err, segment.Close(parts))
}

// StoreKey returns the key under which the sequence's chunks are kept.
func (s *Sequence) StoreKey(stores Stores) segment.ID { return stores.of(s).Key() }

// Has reports whether key is one of the model's with its settings.
func (s Stores) Has(key segment.ID) bool {
	store, _, _ := s.find(key)
	return store != nil
}

// PageTokens returns how many tokens a page on flash holds.
func (s Stores) PageTokens() int { return s.exact.short.PageTokens() }
