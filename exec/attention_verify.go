package exec

import (
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

// newShareSums returns room for the sums of as many shares as land at once.
func newShareSums(c *kv.Cache) (s shareSums) {
	if !c.MayBeCold() {
		return s
	}
	shape, most := c.Shape(), 0
	for _, heads := range shape.KVHeads {
		most = max(most, heads)
	}
	s.joint = crc.NewJoint(shape.Format.BlockBytes(shape.HeadDim))
	s.sums = make([]uint32, c.ChunkPages()*c.PageTokens()/kv.BlockTokens*most)
	return s
}

// of returns room for so many sums.
func (s *shareSums) of(n int) []uint32 {
	if n > len(s.sums) { // of a larger chunk than this cache writes
		s.sums = make([]uint32, n)
	}
	return s.sums[:n]
}

// sumShare sums what a head has of a block, if that has landed and nobody else does.
func (p *pass) sumShare(kvHead, block int) {
	l := &p.landed
	if at := block - l.block; l.sums != nil && at < l.count {
		share := p.m.cache.Shape().Share(l.data, p.index, kvHead, at)
		l.sums[at*p.layer.KVHeads+kvHead] = crc.Update(0, share)
	}
}

// verifyShares checks the pages whose shares were summed.
func (p *pass) verifyShares() {
	if p.landed.sums == nil {
		return
	}
	shares := len(p.landed.sums) / p.landedPages()
	for i := range p.landedPages() {
		p.compare(i, p.sums.joint.Sum(p.landed.sums[i*shares:(i+1)*shares]))
	}
}

// verify sums and checks one of the pages that have landed.
func (p *pass) verify(i int) {
	size := p.m.cache.PageBytes(p.index)
	p.compare(i, crc.Update(0, p.landed.data[i*size:(i+1)*size]))
}

// compare checks the sum of one of the pages that have landed.
func (p *pass) compare(i int, sum uint32) {
	l := &p.landed
	if err := l.chunk.Verify(p.index, l.page+i, sum); err != nil {
		p.damaged.Lock()
		l.err = err
		p.damaged.Unlock()
	}
}
