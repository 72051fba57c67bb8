package index

import "encoding/binary"

const (
	slabBytes  = 1 << 16
	firstBlock = 8   // bytes of a list's first block
	lastBlock  = 512 // each block is twice as long as the one before, up to this
	linkBytes  = 4   // at the end of a block: where the next one is
)

// postings are the passages of each term. The lists share slabs: a list is a chain of blocks of growing length, so
// that rare terms take few bytes. A posting is the distance to the last passage, shifted by one; the lowest bit tells
// that the term occurs once. Otherwise the number of times follows.
type postings struct {
	lists map[uint64]uint32 // by term: index of all
	all   []list
	slabs [][]byte
	next  uint32 // free bytes of the last slab begin here
}

// list is a chain of blocks.
type list struct {
	first uint32 // where its first block begins
	at    uint32 // where the next byte goes
	end   uint32 // of the room in the last block
	last  uint32 // passage
	count uint32
	block uint32 // length of the last block
}

// bytes returns about how much memory the postings take.
func (p *postings) bytes() int64 {
	const perTerm = 48 // of the map, which is at least 7/16 full
	return int64(len(p.slabs))*slabBytes + int64(cap(p.all))*24 + int64(len(p.lists))*perTerm
}

// add appends a passage, which is not before the last one, to the list of a term.
func (p *postings) add(term uint64, passage uint32, times int) {
	at, known := p.lists[term]
	if !known {
		if p.lists == nil {
			p.lists = map[uint64]uint32{}
		}
		at = uint32(len(p.all))
		p.lists[term] = at
		first := p.allocate(firstBlock)
		p.all = append(p.all, list{first: first, at: first, end: first + firstBlock - linkBytes, block: firstBlock})
	}
	l := &p.all[at]
	distance := uint64(passage-l.last) << 1
	l.last = passage
	l.count++
	if times == 1 {
		p.putVarint(l, distance|1)
		return
	}
	p.putVarint(l, distance)
	p.putVarint(l, uint64(times))
}

// allocate returns the place of a new block.
func (p *postings) allocate(n uint32) uint32 {
	if len(p.slabs) == 0 || p.next+n > slabBytes {
		p.slabs, p.next = append(p.slabs, make([]byte, slabBytes)), 0
	}
	at := uint32(len(p.slabs)-1)*slabBytes + p.next
	p.next += n
	return at
}

func (p *postings) putVarint(l *list, x uint64) {
	for ; x >= 0x80; x >>= 7 {
		p.put(l, byte(x)|0x80)
	}
	p.put(l, byte(x))
}

func (p *postings) put(l *list, b byte) {
	if l.at == l.end {
		l.block = min(2*l.block, lastBlock)
		next := p.allocate(l.block)
		binary.LittleEndian.PutUint32(p.bytesAt(l.end), next)
		l.at, l.end = next, next+l.block-linkBytes
	}
	p.slabs[l.at/slabBytes][l.at%slabBytes] = b
	l.at++
}

func (p *postings) bytesAt(at uint32) []byte { return p.slabs[at/slabBytes][at%slabBytes:] }

// posting says how often a term occurs in a passage.
type posting struct {
	passage uint32
	times   uint32
}

// read appends the postings of a term to all.
func (p *postings) read(all []posting, term uint64) []posting {
	at, known := p.lists[term]
	if !known {
		return all
	}
	l := p.all[at]
	r := listReader{p: p, at: l.first, end: l.first + firstBlock - linkBytes, block: firstBlock}
	passage := uint32(0)
	for range l.count {
		x := r.varint()
		passage += uint32(x >> 1)
		times := uint32(1)
		if x&1 == 0 {
			times = uint32(r.varint())
		}
		all = append(all, posting{passage, times})
	}
	return all
}

// listReader reads the bytes of a list.
type listReader struct {
	p              *postings
	at, end, block uint32
}

func (r *listReader) varint() (x uint64) {
	for shift := 0; ; shift += 7 {
		if r.at == r.end {
			r.at = binary.LittleEndian.Uint32(r.p.bytesAt(r.end))
			r.block = min(2*r.block, lastBlock)
			r.end = r.at + r.block - linkBytes
		}
		b := r.p.slabs[r.at/slabBytes][r.at%slabBytes]
		r.at++
		x |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return x
		}
	}
}
