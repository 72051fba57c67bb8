package exec

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
)

// Sequences with the same first tokens hold the pages of these tokens once. prefixes knows which sequence
// holds which prefix of whole pages. It is a radix tree in which every edge is a page: a node is named by a
// hash of all tokens up to the end of its page, so that children need no lists and tokens no copies.
//
// A sequence takes the pages that another one holds before it computes its prompt. Two that compute the
// same tokens at the same time notice when a page is full: the second gives its copy back. Keys and values
// are the same bits in both, because they do not depend on what else is in a pass.
type prefixes struct {
	mu     sync.Mutex
	nodes  map[prefixID][]*Sequence // the sequences that hold the prefix
	buffer []byte
}

// prefixID names the tokens of whole pages from the first one on, their rotary frequencies and their adapters.
type prefixID [sha256.Size]byte

// next returns the ID of a prefix that is longer by a page. The caller holds x.mu.
func (x *prefixes) next(id prefixID, page []int32) prefixID {
	x.buffer = append(x.buffer[:0], id[:]...)
	for _, token := range page {
		x.buffer = binary.LittleEndian.AppendUint32(x.buffer, uint32(token))
	}
	return sha256.Sum256(x.buffer)
}

// register enters a sequence's whole pages whose tokens used exact attention, and gives back those that another
// sequence has too.
func (x *prefixes) register(s *Sequence) {
	page := s.model.cache.PageTokens()
	end := min(s.exactTokens, len(s.ids)) / page
	if len(s.prefixes) >= end || !s.savable() || s.model.Spec.Encoder.Bidirectional { // whose tokens depend on later ones
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for n := len(s.prefixes); n < end; n++ {
		id := x.next(lastPrefix(s), s.ids[n*page:(n+1)*page])
		if holders := x.nodes[id]; len(holders) > 0 && s.kv.ShareSlab(holders[0].kv, n) && n == 0 {
			s.model.passes.moveBeside(s, holders[0])
		}
		x.add(s, id)
	}
}

// add makes a sequence a holder of a prefix that is longer by a page than its last one. The caller holds
// x.mu.
func (x *prefixes) add(s *Sequence, id prefixID) {
	if x.nodes == nil {
		x.nodes = map[prefixID][]*Sequence{}
	}
	x.nodes[id] = append(x.nodes[id], s)
	s.prefixes = append(s.prefixes, id)
}

// mark keeps the recurrent state of a sequence behind its last whole page, for other sequences too.
func (x *prefixes) mark(s *Sequence) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s.state.Mark(len(s.ids))
	s.markedPages = len(s.ids) / s.model.cache.PageTokens()
}

// shareMark lets others take the mark of a sequence behind so many tokens, or with 0 no longer, before it changes.
func (x *prefixes) shareMark(s *Sequence, tokens int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s.markedPages = tokens / s.model.cache.PageTokens()
}

// lastPrefix returns the longest prefix of the sequence that is entered.
func lastPrefix(s *Sequence) (id prefixID) {
	if n := len(s.prefixes); n > 0 {
		return s.prefixes[n-1]
	}
	id = s.lora.root
	if s.longRope {
		id[0] ^= 1
	}
	return id
}

// unregister removes a sequence from the prefixes of more than some pages.
func (x *prefixes) unregister(s *Sequence, pages int) {
	if len(s.prefixes) <= pages && s.markedPages <= pages {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if s.markedPages > pages {
		s.markedPages = 0
	}
	if len(s.prefixes) <= pages {
		return
	}
	for _, id := range s.prefixes[pages:] {
		holders := slices.DeleteFunc(x.nodes[id], func(other *Sequence) bool { return other == s })
		if x.nodes[id] = holders; len(holders) == 0 {
			delete(x.nodes, id)
		}
	}
	s.prefixes = s.prefixes[:pages]
}

// copyTo enters a fork of a sequence.
func (x *prefixes) copyTo(fork, s *Sequence) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, id := range s.prefixes {
		x.add(fork, id)
	}
	fork.markedPages = s.markedPages
}

// adopt gives a sequence, which holds the beginning of ids, the pages of another one that holds a longer
// part of them. It returns the number of tokens that the sequence then has. Recurrent state is known where a sequence
// has its mark, which comes with the pages.
func (x *prefixes) adopt(s *Sequence, ids []int32) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	page, held := s.model.cache.PageTokens(), len(s.prefixes)
	path, holder := slices.Clone(s.prefixes), (*Sequence)(nil)
	id, pages := lastPrefix(s), 0
	for n := held; (n+1)*page <= len(ids); n++ {
		id = x.next(id, ids[n*page:(n+1)*page])
		holders := x.nodes[id]
		if len(holders) == 0 {
			break
		}
		path = append(path, id)
		if i := slices.IndexFunc(holders, func(h *Sequence) bool { return h.state == nil || h.markedPages == n+1 }); i >= 0 {
			holder, pages = holders[i], n+1
		}
	}
	if pages*page <= len(s.ids) || !s.kv.Adopt(holder.kv, pages) {
		return len(s.ids)
	}
	for _, id := range path[held:pages] {
		x.add(s, id)
	}
	if s.state != nil {
		s.state.CopyMark(holder.state, pages*page)
		s.markedPages = pages
	}
	s.model.passes.moveBeside(s, holder)
	return pages * page
}

// AdoptPrefix looks for the longest part of ids that another sequence of the model holds and, if it is
// longer than the part that s holds, shares its pages. The tokens of s are the beginning
// of ids. It leaves at least one token to compute. If page selection has no memory or time to summarize the
// shared keys, s is empty afterwards.
func AdoptPrefix(ctx context.Context, s *Sequence, ids []int32) {
	if !s.savable() || s.Selected() || len(ids) < 2 || s.state != nil && s.saving.save != nil { // a save reads the mark
		return
	}
	if s.model.mustRePrefill(s, max(len(ids), s.expectedLen)) { // its tokens have the other frequencies
		s.truncateTokens(0)
	}
	held := len(s.ids)
	n := s.model.passes.prefixes.adopt(s, ids[:len(ids)-1])
	if n == held {
		return
	}
	s.ids, s.exactTokens = append(s.ids[:held], ids[held:n]...), n
	if s.summaries != nil && summarizeAdopted(ctx, s) != nil {
		s.truncateTokens(0)
	}
}

// summarizeAdopted computes the key summaries of the sequence's tokens between two passes.
func summarizeAdopted(ctx context.Context, s *Sequence) error {
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	if s.model.closed {
		return ErrClosed
	}
	return s.restoreSummaries(ctx, len(s.ids))
}
