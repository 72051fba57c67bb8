package kv

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/llmrun/llmrun/kv/segment"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/tiering"
)

// Save is the persisting of a sequence's full pages, which stay in place until it has ended.
type Save struct {
	seq    *Seq
	pages  *Seq   // a fork of seq, which keeps its pages
	buffer []byte // the page that is written
	store  *segment.Store
	tokens []int32
	behind SaveOptions
	spills int64          // for which the save leaves room on flash
	memory *tiering.Frame // of a copy of the tokens; nil: they are the caller's

	// Set by write.
	chain   Chain          // before: of an earlier save; after: of what could be written
	written []segment.Span // open until the end, so that the eviction for later segments spares them
	bytes   int64
	err     error

	done  chan struct{} // closed when write has ended, if it runs behind
	ended bool          // its result is recorded; guarded by Cache.mu
}

// SaveOptions configure a save behind.
type SaveOptions struct {
	// Durable: the segments survive a power loss once a session that names them is saved.
	Durable bool
	// State is the recurrent state behind the tokens, which stays as it is until the save has ended; nil: none.
	State []byte
	// Commit, if set, is called on the writer's goroutine when all that can be written is
	// written, while no other process can remove it. Its error is that of the save.
	Commit func(chain Chain, err error) error
}

// saver is the state of saving behind: one save at a time. Cache.mu guards it.
type saver struct {
	writer  prefetch.Writer
	save    *Save // in flight; nil: none
	stalled time.Duration
	stalls  int
}

// Persist writes the full pages of a sequence to the store, except those that the
// store already holds, and returns the chain of all of them. tokens are the tokens of
// the sequence; chain is the result of an earlier save or of Restore. On an error,
// Persist returns the chain of the segments that it could write.
func (s *Seq) Persist(store *segment.Store, tokens []int32, chain Chain, durable bool) (Chain, error) {
	return s.PersistState(store, tokens, chain, SaveOptions{Durable: durable})
}

// PersistState is Persist for a sequence with recurrent state.
func (s *Seq) PersistState(store *segment.Store, tokens []int32, chain Chain, o SaveOptions) (Chain, error) {
	c := s.cache
	c.mu.Lock()
	p := s.newSave(store, tokens, chain)
	c.beginUse()
	c.mu.Unlock()
	p.behind = o
	p.write(c.scheduler().WriteNow)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endUse()
	p.end()
	return p.chain, p.err
}

// PersistBehind starts what Persist does and returns at once. The caller
// takes the result with [Save.Wait] or [Save.Result], before it closes the sequence. If another
// save of the cache is in flight, it waits for that one. The error wraps tiering.ErrBudget if
// there is no memory for a copy of the tokens.
func (s *Seq) PersistBehind(store *segment.Store, tokens []int32, chain Chain, o SaveOptions) (*Save, error) {
	c := s.cache
	c.FinishSaves(nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	memory, err := tiering.Alloc(c.budget, tiering.KVFrames, 4*len(tokens))
	if err != nil {
		return nil, err
	}
	copied, err := tiering.View[int32](memory.Bytes(), len(tokens))
	for err == nil && c.saver.save != nil {
		err = c.endSaveInFlight(context.Background()) // another sequence may have started one
	}
	if err == nil && c.closed {
		err = ErrClosed
	}
	if err != nil {
		memory.Free()
		return nil, err
	}
	copy(copied, tokens)
	p := s.newSave(store, copied, chain)
	p.memory, p.done, p.behind = memory, make(chan struct{}), o
	c.saver.save = p
	c.saver.writer.Start(func(write prefetch.WriteFunc) error {
		defer close(p.done)
		p.write(write)
		if o.Commit != nil {
			p.err = o.Commit(p.chain, p.err)
		}
		return nil
	}, prefetch.Deadline{At: c.usedAt(max(0, c.slabsLeft())), Bytes: int64(len(p.pages.hot)) * int64(c.slabBytes)})
	return p, nil
}

// newSave forks the full pages of tokens, so that they remain while the sequence goes on, but may be
// spilled: pages that had to stay in memory would be missed by other sequences. The caller holds c.mu.
func (s *Seq) newSave(store *segment.Store, tokens []int32, chain Chain) *Save {
	page := s.cache.pageTokens
	pages := min(len(tokens), s.len) / page
	fork := &Seq{cache: s.cache, ofSave: true}
	s.cache.seqs[fork] = struct{}{}
	fork.follow(s)
	fork.cut(pages * page)
	return &Save{
		seq: s, store: store, tokens: tokens[:pages*page], pages: fork, spills: s.spillsLeft(),
		chain: slices.Clip(chain.Cut(pages)), // appending must not overwrite the caller's chain
	}
}

// write writes the segments. It needs no lock of the cache.
func (p *Save) write(write prefetch.WriteFunc) {
	page := p.seq.cache.pageTokens
	counted := func(to io.WriterAt, b []byte, off int64) error {
		err := write(to, b, off)
		if err == nil {
			p.bytes += int64(len(b))
		}
		return err
	}
	store := p.store.Leaving(p.spills)
	parent, at, pages := p.store.Key(), 0, len(p.tokens)/page
	for i := 0; at < pages; i++ {
		n := min(segment.MaxPages, pages-at)
		if i < len(p.chain) {
			n = p.chain[i].Pages
		}
		f, err := store.Write(parent, at*page, p.tokens[at*page:(at+n)*page], p.pagesFrom(at), p.behind.Durable, counted)
		if errors.Is(err, fs.ErrPermission) && p.seq.cache.forgetPersisted() { // some systems do not replace open files
			f, err = store.Write(parent, at*page, p.tokens[at*page:(at+n)*page], p.pagesFrom(at), p.behind.Durable, counted)
		}
		if err != nil {
			p.chain, p.err = p.chain[:i], err
			return
		}
		p.written = append(p.written, segment.Span{File: f, Pages: n})
		if i == len(p.chain) {
			p.chain = append(p.chain, segment.Ref{ID: f.ID(), Pages: n})
		}
		parent, at = f.ID(), at+n
	}
	if p.behind.State != nil && at > 0 {
		p.err = store.WriteState(parent, p.behind.State, p.behind.Durable, counted)
	}
}

// forgetPersisted closes the persisted segments of pages in memory, which are then written again before they leave
// it. It reports whether there were any.
func (c *Cache) forgetPersisted() (any bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.seqs {
		if slices.ContainsFunc(s.saved, savedSegment.persisted) {
			s.cutSaved(0)
			any = true
		}
	}
	return any
}

// pagesFrom returns a function that yields the bytes of pages from first on, which are in memory or on flash.
// It copies them, because a write may take long, and a page in memory may be needed meanwhile.
func (p *Save) pagesFrom(first int) segment.Pages {
	c := p.pages.cache
	return func(layer, i int) ([]byte, error) {
		n, page := c.PageBytes(layer), first+i
		p.buffer = slices.Grow(p.buffer[:0], n)[:n]
		c.mu.Lock()
		if page >= p.pages.coldPages {
			defer c.mu.Unlock()
			copy(p.buffer, c.page(p.pages.hot[page-p.pages.coldPages], layer))
			return p.buffer, nil
		}
		span := 0
		for ; page >= p.pages.cold[span].Pages; span++ {
			page -= p.pages.cold[span].Pages
		}
		from := p.pages.cold[span].segment // the fork keeps it until the save ends
		c.mu.Unlock()
		return p.buffer, c.readAwaited(from, layer, page, p.buffer)
	}
}

// end records what was written and releases the pages. The caller holds c.mu.
func (p *Save) end() {
	p.note()
	p.err = errors.Join(p.err, segment.Close(p.written))
	p.pages.cut(0)
	delete(p.pages.cache.seqs, p.pages)
	if p.memory != nil {
		p.memory.Free()
	}
	p.pages, p.buffer, p.tokens, p.written, p.memory, p.ended = nil, nil, nil, nil, nil, true
}

// note records the persisted segments of a sequence whose pages are still in memory, so that
// they are dropped without being written again. The caller holds c.mu.
func (p *Save) note() {
	s := p.seq
	if s.cache.spill == nil {
		return
	}
	var ahead []savedSegment
	if s.nextSaved() != nil {
		ahead, s.saved = s.saved, nil
	}
	s.cutSaved(0)
	first := 0
	for _, span := range p.written {
		if first >= s.coldPages && p.holds(first, span.Pages) {
			s.saved = append(s.saved, savedSegment{first, &sharedSegment{Segment: span.File.Retain(), refs: 1}})
		}
		first += span.Pages
	}
	for _, k := range ahead {
		if !k.persisted() {
			s.noteAhead(k)
		}
		k.segment.drop()
	}
}

// holds reports whether the sequence still has the pages of a segment in memory: meanwhile it may
// have been truncated, and may have grown again. The caller holds c.mu.
func (p *Save) holds(first, pages int) bool {
	s, saved := p.seq, p.pages
	if first < max(s.coldPages, saved.coldPages) || first+pages > s.coldPages+s.fullHotPages() {
		return false
	}
	return slices.Equal(s.hot[first-s.coldPages:][:pages], saved.hot[first-saved.coldPages:][:pages])
}

// writes reports whether the save in flight writes the first page in memory of a sequence. The caller
// holds c.mu.
func (v *saver) writes(s *Seq) bool {
	return v.save != nil && len(s.hot) > 0 && slices.Contains(v.save.pages.hot, s.hot[0])
}

// endSaveInFlight waits for the save in flight, if there is one. The caller holds c.mu, which is
// free during the wait.
func (c *Cache) endSaveInFlight(ctx context.Context) error {
	v := &c.saver
	p := v.save
	if p == nil {
		return nil
	}
	v.writer.Hurry()
	if !c.await(ctx, p.done) {
		return ctx.Err()
	}
	if v.save == p { // no other goroutine has taken its result
		_, _ = v.writer.Wait(context.Background()) // for the last steps of its goroutine
		v.finish()
	}
	return nil
}

// finish ends the save in flight, whose writer has ended. The caller holds c.mu.
func (v *saver) finish() {
	v.save.end()
	v.save = nil
}

// awaitSave is endSaveInFlight for a token that needs room, and counts the wait. The caller holds
// c.mu.
func (c *Cache) awaitSave(ctx context.Context) error {
	begun := time.Now()
	c.saver.stalls++
	err := c.endSaveInFlight(ctx)
	c.saver.stalled += time.Since(begun)
	return err
}

// pollSave ends the save in flight if it has written everything. The caller holds c.mu.
func (c *Cache) pollSave() {
	if ended, _ := c.saver.writer.Poll(); ended {
		c.saver.finish()
	}
}

// FinishSaves waits for the save in flight, unless it is one of a sequence. Other sequences go on
// meanwhile.
func (c *Cache) FinishSaves(except *Seq) {
	c.mu.Lock()
	p := c.saver.save
	c.mu.Unlock()
	if p != nil && p.seq != except {
		p.Wait()
	}
}

// Wait hurries the save and waits until it has ended.
func (p *Save) Wait() {
	c := p.seq.cache
	c.mu.Lock()
	if c.saver.save == p {
		c.saver.writer.Hurry()
	}
	c.mu.Unlock()
	<-p.done
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.saver.save == p {
		_ = c.endSaveInFlight(context.Background()) // the error of the save is its result
	}
}

// Result returns the chain of what is persisted, the bytes that were written, and the error. ended
// is false while the save is in flight.
func (p *Save) Result() (chain Chain, bytes int64, ended bool, err error) {
	c := p.seq.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.saver.save == p {
		c.pollSave()
	}
	if !p.ended {
		return nil, 0, false, nil
	}
	return p.chain, p.bytes, true, p.err
}

// closeSaver stops the save in flight and the writer. The caller holds c.mu, which is free while the save
// ends, because it reads pages of the cache.
func (c *Cache) closeSaver() {
	v := &c.saver
	if p := v.save; p != nil {
		v.writer.Cancel()
		c.await(context.Background(), p.done)
		if v.save == p { // no other goroutine has taken its result
			_, _ = v.writer.Stop() // the error of the save is its result
			v.finish()
		}
	}
	v.writer.Close()
}
