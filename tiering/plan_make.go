package tiering

import (
	"math"
	"os"
	"sort"
)

// Defaults and proportions of plans.
const (
	DefaultChunk = 512     // tokens of a prefill chunk
	DefaultPiece = 1 << 20 // size of a read
	// StreamReads is the number of reads of weights in flight with reader goroutines.
	// A disk needs four; while the cores compute, some of the readers wait for a
	// core.
	StreamReads = 8
	// ExpertReads is the number of experts that are read at a time.
	ExpertReads = 4
	// EmbeddingRowCache limits the cache of embedding rows on flash.
	EmbeddingRowCache = 1 << 20

	// A prefill chunk is a multiple of chunkStep, which is also the minimum.
	chunkStep = 16
	// minPieces is the minimum number of pieces in a ring: one in use and one being
	// read.
	minPieces = 2
	// A ring of lowRing keeps a disk busy; a ring of maxRing bridges its longest
	// pauses.
	lowRing = 8 << 20
	maxRing = 64 << 20
	// Each read has a fixed cost for the cores, so reads are as large as possible,
	// from smallPiece to DefaultPiece, with at least ringPieces of them in the ring.
	smallPiece = 256 << 10
	ringPieces = 8
	// With chunks of goodChunk tokens, most prompts need one pass or a few.
	goodChunk = 256
	// Activations and the ring get at most one part in chunkDivisor and ringDivisor
	// of the memory above the minimum; weights get the rest. Activations up to
	// goodChunk get one part in goodChunkDivisor: each byte of them displaces a
	// pinned byte of weights, but every additional chunk of a prompt reads all
	// streamed weights again. The ring up to lowRing gets one part in lowRingDivisor.
	// Embedding lookups in the head get one part in lookupDivisor of the memory left
	// for weights.
	chunkDivisor     = 32
	goodChunkDivisor = 4
	ringDivisor      = 16
	lowRingDivisor   = 2
	lookupDivisor    = 16
	// A drafter gets at most one part in draftDivisor of the memory above the minimum.
	draftDivisor = 16
	// A context that the user did not request takes at most one part in
	// contextDivisor of the budget without the program, or what all weights leave if
	// that is more, but at least lowContext tokens.
	contextDivisor = 8
	lowContext     = 2048
	// lowWholeContext is lowContext of encoders, which describe texts of some hundred words.
	lowWholeContext = 512
)

// MakePlan divides a budget among the memory consumers of a model. The error is a
// *MinimumError if the budget is below the minimum.
//
// If everything fits, everything stays in memory. Otherwise a pass is a cyclic scan
// over the weights, for which an LRU cache would be useless: MakePlan pins a fixed
// part and streams the rest. It pins the head first: no computation overlaps with
// the read of the head after a prompt, and evaluating a text reads the head repeatedly. The
// remaining memory is spread evenly over the layers, so that the reads are spread
// evenly over a pass. Experts are not scanned; they get a cache in the memory that
// the other weights leave.
func MakePlan(s Shape, n Need, r Rates) (*Plan, error) {
	m := planner{Shape: s, Need: n, pinOrder: new([]block), expertUse: map[chunkUse]float64{}}
	if m.Piece <= 0 {
		m.Piece = smallPiece
	}
	if m.Chunk <= 0 {
		m.Chunk = DefaultChunk
	}
	m.chooseContext()
	for {
		m.mayShrink = n.Context == 0 && m.Context > m.lowContext()
		p, err := m.makeContext(r)
		if err == nil || n.Context > 0 || m.Context <= m.lowContext() {
			return p, err
		}
		m.halveContext()
	}
}

// ChunkOf returns the largest useful prefill chunk for sequences of a number of tokens.
func ChunkOf(tokens int) int { return roundUp(tokens, chunkStep) }

// make plans all memory except KV, whose size is given.
func (m *planner) make(r Rates) (*Plan, error) {
	p := &Plan{Budget: m.Budget, Context: m.Context, Rates: r, By: m.fixed()}
	if err := m.assign(p); err != nil {
		return nil, err
	}
	m.count(p)
	m.countCold(p)
	m.predict(p)
	return p, nil
}

// planner computes a plan.
type planner struct {
	Shape
	Need
	hot          int64                // memory for KV
	chunkAtLeast int                  // tokens of a prefill chunk if there is memory; 0 = the general rule
	pinOrder     *[]block             // nil content: not computed yet
	mayShrink    bool                 // a refusal leads to a shorter context
	expertUse    map[chunkUse]float64 // nil: not remembered
}

// limit returns the budget, math.MaxInt64 if there is none.
func (m *planner) limit() int64 {
	if m.Budget <= 0 {
		return math.MaxInt64
	}
	return m.Budget
}

// kv returns the size of the KV of a number of tokens.
func (m *planner) kv(tokens int) int64 { return m.KVFixed + m.kvOf(tokens, m.KVBytesPerToken) }

// summaryTokens is the number of tokens for which summaries are allocated at once.
const summaryTokens = 1024

// summaries returns the size of the summaries of a number of tokens.
func (m *planner) summaries(tokens int) int64 {
	groups := int64(roundUp(tokens, summaryTokens) / summaryTokens)
	return groups * PageUp(summaryTokens*m.KVSummaryPerToken)
}

func (m *planner) kvOf(tokens int, perToken int64) int64 {
	return int64(roundUp(tokens, max(1, m.KVPageTokens))) * perToken
}

// scratch returns the memory of activations of a prefill chunk.
func (m *planner) scratch(chunk int) int64 {
	return PageUp(max(m.Scratch.At(chunk), m.Logits.At(chunk)))
}

// drafts returns the memory of a drafter.
func (m *planner) drafts() int64 {
	if m.DraftTokens == 0 {
		return 0
	}
	return PageUp(m.Drafts.At(min(m.Context, m.DraftTokens)))
}

// fixed returns the memory that every plan needs and whose size does not vary.
func (m *planner) fixed() (by Ledger) {
	by[Code], by[Heap], by[Driver], by[Pinned] = m.Code, m.Heap, m.Driver, m.OtherPinned+m.Convert
	by[KVHot] = m.hot
	by[KVSummaries] = m.summaries(m.Context)
	if m.hot < m.kv(m.Context) {
		by[KVFrames] = m.kvFrames()
	}
	by[Drafts] = m.HeldDrafts
	if m.DraftsRequired {
		by[Drafts] = max(by[Drafts], m.drafts())
	}
	by[Rewards] = m.Reward.At(m.Context)
	by[Cached] = m.cachedRows()
	for p := range by {
		by[p] = PageUp(by[p])
	}
	return by
}

// lowChunk returns the minimum size of a prefill chunk.
func (m *planner) lowChunk() int {
	if m.FixedChunk {
		return m.Chunk
	}
	return min(m.Chunk, chunkStep)
}

// dense returns the size of all sections in memory, and of the vectors, which lie apart: they stay
// when a smaller budget releases the end of a section.
func (m *planner) dense() int64 {
	n := PageUp(m.Vectors) + PageUp(m.Head.Bytes)
	for i := range m.Layers {
		n += PageUp(m.Layers[i].Bytes)
	}
	return n
}

// minimumPieces returns the minimum number of pieces in a ring: a unit must fit
// besides the piece that is being read.
func (m *planner) minimumPieces() int64 { return max(minPieces, 1+(m.ringUnit()+m.Piece-1)/m.Piece) }

// ringUnit returns the size of the largest unit that passes through the ring.
func (m *planner) ringUnit() int64 {
	if m.KVCold {
		return max(m.Unit, m.KVUnit)
	}
	return m.Unit
}

// minimumRing returns the memory of the smallest ring.
func (m *planner) minimumRing() int64 { return m.minimumPieces()*m.Piece + PageUp(m.ringUnit()) }

// fixedPinned returns the weights that stay in memory even if nothing is pinned:
// vectors, and the unit at the end of the pinned part of each section.
func (m *planner) fixedPinned() int64 {
	return PageUp(m.Vectors) + int64(len(m.Layers)+1)*PageUp(m.Unit) + m.fixedSections()
}

// fixedSections returns the fixed parts of all sections.
func (m *planner) fixedSections() int64 {
	n := PageUp(m.Head.Fixed)
	for i := range m.Layers {
		n += PageUp(m.Layers[i].Fixed)
	}
	return n
}

// minimumWeights returns the minimum memory for weights: all of them if they are
// smaller than the buffers for streaming them.
func (m *planner) minimumWeights() int64 {
	all := m.dense() + m.slots(m.experts()) + m.residentRing()
	return min(m.fixedPinned()+m.minimumRing()+m.slots(m.minSlots()), all)
}

// assign divides the budget among weights, experts and activations.
func (m *planner) assign(p *Plan) error {
	rest := m.limit() - p.By.Total() - m.scratch(m.lowChunk()) // for weights and larger chunks
	free := rest - m.minimumWeights()
	if free < 0 || max(m.opening(), m.uploading()) > m.limit() {
		return m.refuse(p.By)
	}
	if more := max(0, m.drafts()-p.By[Drafts]); more <= free/draftDivisor {
		p.By[Drafts] += more
		rest, free = rest-more, free-more
	}
	extra := max(m.chunkGrant(free), min(free, m.extraScratch(max(m.chunkAtLeast, m.lowChunk()))))
	p.ExpertSlots = m.minSlots()
	ring := m.residentRing()
	if left := rest - extra - m.dense() - m.slots(p.ExpertSlots) - ring; left >= 0 {
		p.By[KVFrames] += ring
		extra = m.pinAll(p, left, extra)
	} else {
		m.streamWithKV(p, free-extra, ring)
	}
	p.Chunk = m.chunk(extra)
	p.By[Scratch] = m.scratch(p.Chunk)
	p.By[Cached] += m.slots(p.ExpertSlots)
	return nil
}

// chunkGrant returns the memory that activations get beyond the minimum. free is the
// memory above the minimum.
func (m *planner) chunkGrant(free int64) int64 {
	good := min(free/goodChunkDivisor, m.extraScratch(min(m.Chunk, goodChunk)))
	return max(good, min(free/chunkDivisor, m.extraScratch(m.Chunk)))
}

// extraScratch returns the additional memory of activations for a chunk size,
// compared with the minimum.
func (m *planner) extraScratch(chunk int) int64 { return m.scratch(chunk) - m.scratch(m.lowChunk()) }

// chunk returns the largest chunk size whose additional memory is at most extra.
func (m *planner) chunk(extra int64) int {
	if extra >= m.extraScratch(m.Chunk) {
		return m.Chunk
	}
	steps := sort.Search((m.Chunk-m.lowChunk())/chunkStep, func(i int) bool {
		return m.extraScratch(m.lowChunk()+(i+1)*chunkStep) > extra
	})
	return m.lowChunk() + steps*chunkStep
}

// pinAll plans to keep all sections in memory, and as many experts as left bytes
// hold. If all experts fit, the rest may go to larger chunks; pinAll returns the
// memory for them.
func (m *planner) pinAll(p *Plan, left, extra int64) int64 {
	p.By[Pinned] += m.dense()
	p.HeadPinned = m.Head.Bytes
	for i := range m.Layers {
		p.Pinned = append(p.Pinned, m.Layers[i].Bytes)
	}
	missing := m.experts() - p.ExpertSlots
	if m.slots(missing) > left {
		p.ExpertSlots += int(left / m.slots(1))
		return extra
	}
	p.ExpertSlots = m.experts()
	return min(m.extraScratch(m.Chunk), extra+left-m.slots(missing))
}

// stream plans to pin a part of the sections and to stream the rest in every pass.
// memory is the memory above the minimum.
func (m *planner) stream(p *Plan, memory int64) {
	// A ring larger than the streamed bytes would displace more pinned bytes than it
	// hides reads.
	wanted := min(m.moreRing(maxRing), max(0, m.dense()-m.fixedSections()-memory))
	ring := max(min(memory/lowRingDivisor, m.moreRing(lowRing)), min(memory/ringDivisor, wanted))
	p.Piece, p.Ring = m.Piece, m.minimumPieces()*m.Piece+ring/m.Piece*m.Piece
	for m.Piece == smallPiece && p.Piece < DefaultPiece && m.pieceFits(2*p.Piece, p.Ring) {
		p.Piece *= 2
		p.Ring = p.Ring / p.Piece * p.Piece
	}
	p.By[Ring] = p.Ring + PageUp(m.ringUnit())
	p.By[Pinned] += m.fixedPinned()
	// Subtract the ring's exact quota, not its rounded size, so that a slightly larger
	// budget never pins less.
	memory -= ring
	p.Lookup = m.lookup(memory)
	p.By[Cached] += p.Lookup
	m.pin(p, memory-p.Lookup)
}

// lookup returns the memory for embedding lookups in the head; 0 if the head can be
// pinned completely.
func (m *planner) lookup(memory int64) int64 {
	if !m.HeadLookedUp && memory >= PageUp(m.Head.Bytes-m.Head.Fixed) {
		return 0
	}
	page := int64(os.Getpagesize())
	return min(PageUp(m.Lookup), memory/lookupDivisor/page*page)
}

// pieceFits reports whether a ring can be divided into pieces of this size: enough
// pieces, and room for a unit besides the piece that is being read.
func (m *planner) pieceFits(piece, ring int64) bool {
	pieces := ring / piece
	return pieces >= ringPieces && (pieces-1)*piece >= m.ringUnit()
}

// moreRing returns the additional memory of a ring compared with the smallest one.
func (m *planner) moreRing(bytes int64) int64 {
	return max(0, bytes-m.minimumPieces()*m.Piece)
}

// PageUp rounds an amount of memory up to whole pages, as a frame does.
func PageUp(n int64) int64 {
	page := int64(os.Getpagesize())
	return (n + page - 1) / page * page
}

// roundUp returns n rounded up to a multiple of step.
func roundUp(n, step int) int { return (n + step - 1) / step * step }
