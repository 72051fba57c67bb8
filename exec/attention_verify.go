package exec

import (
	"slices"

	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/crc"
)

// Pages from flash are compared with their checksums before what comes of them is used.
// Where a page has one tile that looks at all of it, as in decoding, each share is summed
// by who looks at it, just before: its bytes come from memory once, and the sum of a page
// follows from those of its shares. Else a page is summed by itself.

// shareSums is what is needed for that.
type shareSums struct {
	joint *crc.Joint // of shares
	sums  []uint32
}

// newShareSums returns what is needed for pages of a cache, nothing if all are in memory.
func newShareSums(c *kv.Cache) (s shareSums) {
	if !c.MayBeCold() {
		return s
	}
	s.joint = crc.NewJoint(c.Shape().Format.BlockBytes(c.Shape().HeadDim))
	return s
}

// of returns room for so many sums. It grows with the pages that land at once.
func (s *shareSums) of(n int) []uint32 {
	s.sums = slices.Grow(s.sums[:0], n)
	return s.sums[:n]
}

// sumShare sums what a head has of a block, if that has landed and nobody else does.
func (p *pass) sumShare(kvHead, block int) {
	l := &p.landed
	if at := block - l.block; l.sums != nil && at < l.count {
		l.sums[at*p.layer.KVHeads+kvHead] = crc.Update(0, p.landedShare(kvHead, at))
	}
}

// verifyShares checks the pages whose shares were summed.
func (p *pass) verifyShares() {
	if p.landed.sums == nil {
		return
	}
	shares := len(p.landed.sums) / len(p.landed.pages)
	for i := range p.landed.pages {
		p.compare(i, p.sums.joint.Sum(p.landed.sums[i*shares:(i+1)*shares]))
	}
}

// verify sums and checks one of the pages that have landed.
func (p *pass) verify(i int) {
	p.compare(i, crc.Update(0, p.landed.pages[i].data))
}

// compare checks the sum of one of the pages that have landed.
func (p *pass) compare(i int, sum uint32) {
	l := &p.landed
	if err := l.pages[i].chunk.Verify(p.index, l.pages[i].page, sum); err != nil {
		p.damaged.Lock()
		l.err = err
		p.damaged.Unlock()
	}
}
