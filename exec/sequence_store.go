package exec

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/kv/segment"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/store/vfs"
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
	dir.AdmitReads(func(bytes int) func() {
		grant, _ := m.scheduler.Admit(prefetch.Awaited, bytes)
		return func() { m.scheduler.Done(grant) }
	})
	return AddStores(m, dir, identity)
}

// AddStores returns stores of a model for another identity in a directory of OpenStores.
func AddStores(m *Model, dir *segment.Dir, identity string) (s Stores, err error) {
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

// savable reports whether all that the sequence's tokens leave behind is in the host's memory.
func (s *Sequence) savable() bool { return s.model.offloadedLayers == nil }

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
	s.model.cache.FinishSaves(s.kv) // they may hold the prefix
	store := stores.storeFor(s)
	find := store.Lookup
	if s.state != nil {
		find = store.LookupWhole
	}
	parts, lookup := find(ids[:len(ids)-1])
	restored, err = s.restore(ctx, store, parts, ids, !s.Selected())
	return restored, errors.Join(lookup, err, segment.Close(parts))
}

// restore loads the KV of ids from parts. exact means that their tokens used exact attention.
func (s *Sequence) restore(ctx context.Context, store *segment.Store, parts []segment.Span, ids []int32, exact bool) (int, error) {
	if s.state != nil {
		parts = withState(store, parts)
	}
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
	early := s.FinishSave()
	s.truncateTokens(held)
	held = len(s.ids) // fewer, if the recurrent state had to go back further
	chain, err := s.restorePages(ctx, parts, held, n)
	if err == nil {
		err = restoreState(s, store, parts, held, n)
	}
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
	s.model.passes.prefixes.register(s)
	return n - held, early
}

// withState returns the parts up to the last one that is a whole segment with the recurrent state behind it.
func withState(store *segment.Store, parts []segment.Span) []segment.Span {
	for len(parts) > 0 {
		if last := &parts[len(parts)-1]; last.Pages == last.File.Pages() && store.HasState(last.File.ID()) {
			break
		}
		parts = parts[:len(parts)-1]
	}
	return parts
}

// restoreState reads the recurrent state behind the n tokens of parts. If it cannot, the sequence holds its first held
// tokens only.
func restoreState(s *Sequence, store *segment.Store, parts []segment.Span, held, n int) error {
	if s.state == nil {
		return nil
	}
	s.model.passes.prefixes.shareMark(s, 0)
	s.state.Unmark()
	if err := store.ReadState(parts[len(parts)-1].File.ID(), s.state.Marked()); err != nil {
		s.kv.Truncate(held)
		if s.summaries != nil {
			s.summaries.Truncate(held)
		}
		return err
	}
	s.state.Restored(n)
	s.model.passes.prefixes.shareMark(s, n)
	return nil
}

// DropDamaged verifies the pages that the sequence has on flash. If one is damaged, it truncates the sequence
// before the segment with the page. A saved segment it discards; the next Save writes it again. The error
// describes the damage; it is nil if all pages are intact, or if ctx ends.
func (s *Sequence) DropDamaged(ctx context.Context, stores Stores) error {
	s.reportSave(s.FinishSave())
	f, page, err := s.kv.Damaged(ctx)
	if err == nil {
		return nil
	}
	s.truncateTokens(page * s.model.cache.PageTokens())
	if f != nil {
		err = errors.Join(err, stores.storeFor(s).Discard(f))
	}
	return err
}

// MayBeDamage reports whether damaged pages on flash may be the reason for an error of a pass.
func MayBeDamage(err error) bool {
	var read *vfs.IOError
	return errors.Is(err, kv.ErrCorrupt) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &read) && read.Op == "read"
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
