package tiering

import (
	"math"
	"os"
	"sort"
)

// What a plan takes where it is not told otherwise.
const (
	DefaultChunk = 512     // tokens of a prompt that are computed together
	DefaultPiece = 1 << 20 // bytes of a read
	// StreamReads is how many reads of weights are in flight where threads wait for
	// them. Four are enough for a disk; while the cores compute, some of them wait for
	// one to go on.
	StreamReads = 8
	// EmbeddingRowCache bounds the memory for rows of an embedding on flash.
	EmbeddingRowCache = 1 << 20

	// chunkStep is what chunks are a multiple of, and the smallest chunk.
	chunkStep = 16
	// minPieces is the smallest ring: a piece that is in use and one that is being
	// read.
	minPieces = 2
	// lowRing keeps a disk busy while as much is in use, and maxRing rides out its
	// longest pauses.
	lowRing = 8 << 20
	maxRing = 64 << 20
	// Each read costs the cores something beside its bytes, so reads are as large
	// as they can be with ringPieces of them in the ring, from smallPiece to
	// DefaultPiece.
	smallPiece = 256 << 10
	ringPieces = 8
	// goodChunk is a chunk in which most prompts pass through the layers once, or
	// a few times.
	goodChunk = 256
	// Of the memory above the minimum, activations and the ring get at most one
	// part in so many. Weights get the rest. Up to goodChunk activations get one part
	// in goodChunkDivisor: a byte of them costs each token a byte of weights that is
	// read, but every chunk of a prompt has all that is not pinned read again. Up to
	// lowRing the ring gets one part in lowRingDivisor. Reading rows of the head gets one
	// part in lookupDivisor of what is left for weights.
	chunkDivisor     = 32
	goodChunkDivisor = 4
	ringDivisor      = 16
	lowRingDivisor   = 2
	lookupDivisor    = 16
	// A context that was not asked for takes at most one part in so many of what
	// the program leaves, but never less than lowContext.
	contextDivisor = 8
	lowContext     = 2048
)

// MakePlan divides a budget. The error is a *MinimumError if the budget cannot
// hold what has to be in memory at any time.
//
// If everything fits, everything stays. Otherwise a pass is a cyclic scan, of
// which a cache would keep nothing: so a fixed part is pinned and the rest
// streamed. The head is pinned first: nothing is left to compute while it is read
// for the token behind a prompt, and a text whose every token is judged reads it
// again and again. What is left is spread evenly over the layers, which makes the
// reads flow evenly while a pass goes on. Experts are not scanned: they get as a
// cache what the rest of the model leaves.
func MakePlan(s Shape, n Need, r Rates) (*Plan, error) {
	m := planner{Shape: s, Need: n}
	if m.Piece <= 0 {
		m.Piece = smallPiece
	}
	if m.Chunk <= 0 {
		m.Chunk = DefaultChunk
	}
	m.chooseContext()
	m.Chunk = min(m.Chunk, roundUp(m.Context, chunkStep))
	if m.KVCold {
		return m.makeKV(r)
	}
	m.hot = m.kv(m.Context)
	return m.make(r)
}

// make divides the budget among all that is not keys and values.
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

// planner is what a plan is made from.
type planner struct {
	Shape
	Need
	hot int64 // memory for keys and values
}

// limit returns the budget as a number to compare with.
func (m *planner) limit() int64 {
	if m.Budget <= 0 {
		return math.MaxInt64
	}
	return m.Budget
}

// chooseContext sets the context where none was asked for: the largest that
// halving ContextMax gives and that leaves the weights most of the memory.
func (m *planner) chooseContext() {
	if m.Context > 0 {
		return
	}
	m.Context = m.ContextMax
	if m.KVCold { // it costs nothing but summaries until the conversation is that long
		for m.Context > lowContext && m.summaries(m.Context) > (m.limit()-m.Code-m.Heap)/contextDivisor {
			m.Context = max(lowContext, m.Context/2)
		}
		return
	}
	for m.Context > lowContext && m.kv(m.Context) > (m.limit()-m.Code-m.Heap)/contextDivisor {
		m.Context = max(lowContext, m.Context/2)
	}
}

// kv returns what keys and values of so many tokens take.
func (m *planner) kv(tokens int) int64 { return m.KVFixed + m.kvOf(tokens, m.KVBytesPerToken) }

// summaryTokens is how many tokens summaries are made room for at once.
const summaryTokens = 1024

// summaries returns what summaries of so many tokens take.
func (m *planner) summaries(tokens int) int64 {
	groups := int64(roundUp(tokens, summaryTokens) / summaryTokens)
	return groups * pageUp(summaryTokens*m.KVSummaryPerToken)
}

func (m *planner) kvOf(tokens int, perToken int64) int64 {
	return int64(roundUp(tokens, max(1, m.KVPageTokens))) * perToken
}

// scratch returns what activations of a chunk take.
func (m *planner) scratch(chunk int) int64 {
	return pageUp(max(m.Scratch.At(chunk), m.Logits.At(chunk)))
}

// fixed returns the memory that no plan does without and that has one size.
func (m *planner) fixed() (by Ledger) {
	by[Code], by[Heap], by[Pinned] = m.Code, m.Heap, m.OtherPinned
	by[KVHot] = m.hot
	by[KVSummaries] = m.summaries(m.Context)
	if m.hot < m.kv(m.Context) {
		by[KVFrames] = m.kvRing()
	}
	if m.Embedding > 0 {
		by[Cached] = min(m.Embedding, max(EmbeddingRowCache, 2*m.RowBytes))
	}
	for p := range by {
		by[p] = pageUp(by[p])
	}
	return by
}

// lowChunk is the smallest chunk that a plan takes.
func (m *planner) lowChunk() int { return min(m.Chunk, chunkStep) }

// dense returns what all sections take in memory.
func (m *planner) dense() int64 {
	n := pageUp(m.Head.Bytes)
	for i := range m.Layers {
		n += pageUp(m.Layers[i].Bytes)
	}
	return n
}

// experts returns how many there are in all layers.
func (m *planner) experts() int { return m.ExpertLayers * m.Experts }

// minSlots is how many experts have to be in memory at once: those of a layer
// that work on one token.
func (m *planner) minSlots() int { return min(m.ExpertsUsed, m.experts()) }

// slots returns what so many experts take.
func (m *planner) slots(n int) int64 { return int64(n) * pageUp(m.ExpertBytes) }

// minimumPieces is the smallest number of pieces in a ring: besides the one that
// is being read, a unit has to fit.
func (m *planner) minimumPieces() int64 { return max(minPieces, 1+(m.ringUnit()+m.Piece-1)/m.Piece) }

// ringUnit is the largest part that passes through the ring as a whole.
func (m *planner) ringUnit() int64 {
	if m.KVCold {
		return max(m.Unit, m.KVUnit)
	}
	return m.Unit
}

// minimumRing is the memory of the smallest ring.
func (m *planner) minimumRing() int64 { return m.minimumPieces()*m.Piece + pageUp(m.ringUnit()) }

// fixedPinned is what stays in memory although nothing is pinned: vectors, and the unit
// with which the pinned part of each section ends.
func (m *planner) fixedPinned() int64 {
	return pageUp(m.Vectors) + int64(len(m.Layers)+1)*pageUp(m.Unit)
}

// minimumWeights is the least that weights take: all of them where that is no
// more than what they pass through.
func (m *planner) minimumWeights() int64 {
	return min(m.fixedPinned()+m.minimumRing()+m.slots(m.minSlots()), m.dense()+m.slots(m.experts()))
}

// assign fills in what is where.
func (m *planner) assign(p *Plan) error {
	rest := m.limit() - p.By.Total() - m.scratch(m.lowChunk()) // for weights and a larger chunk
	free := rest - m.minimumWeights()
	if free < 0 {
		return m.refuse(p.By)
	}
	extra := m.chunkGrant(free)
	p.ExpertSlots = m.minSlots()
	if left := rest - extra - m.dense() - m.slots(p.ExpertSlots); left >= 0 {
		extra = m.pinAll(p, left, extra)
	} else {
		m.stream(p, free-extra)
	}
	p.Chunk = m.chunk(extra)
	p.By[Scratch] = m.scratch(p.Chunk)
	p.By[Cached] += m.slots(p.ExpertSlots)
	return nil
}

// chunkGrant returns what activations get above those of the smallest chunk, out of
// memory above the minimum.
func (m *planner) chunkGrant(free int64) int64 {
	good := min(free/goodChunkDivisor, m.extraScratch(min(m.Chunk, goodChunk)))
	return max(good, min(free/chunkDivisor, m.extraScratch(m.Chunk)))
}

// extraScratch is by how much activations of a chunk take more than those of the smallest.
func (m *planner) extraScratch(chunk int) int64 { return m.scratch(chunk) - m.scratch(m.lowChunk()) }

// chunk returns the largest chunk whose activations take at most so much more
// than those of the smallest.
func (m *planner) chunk(extra int64) int {
	if extra >= m.extraScratch(m.Chunk) {
		return m.Chunk
	}
	steps := sort.Search((m.Chunk-m.lowChunk())/chunkStep, func(i int) bool {
		return m.extraScratch(m.lowChunk()+(i+1)*chunkStep) > extra
	})
	return m.lowChunk() + steps*chunkStep
}

// pinAll plans to have all sections in memory, and as many experts as what is left
// then holds. Where it holds all of them, the chunk may take the rest; keep
// returns what it gets.
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

// stream plans to keep a part of the sections and read the rest in every pass.
// memory is what is left above the smallest ring.
func (m *planner) stream(p *Plan, memory int64) {
	// A ring that is larger than what has to be streamed anyway costs more reads
	// than it hides.
	wanted := min(m.moreRing(maxRing), max(0, m.dense()-memory))
	ring := max(min(memory/lowRingDivisor, m.moreRing(lowRing)), min(memory/ringDivisor, wanted))
	p.Piece, p.Ring = m.Piece, m.minimumPieces()*m.Piece+ring/m.Piece*m.Piece
	for m.Piece == smallPiece && p.Piece < DefaultPiece && m.pieceFits(2*p.Piece, p.Ring) {
		p.Piece *= 2
		p.Ring = p.Ring / p.Piece * p.Piece
	}
	p.By[Ring] = p.Ring + pageUp(m.ringUnit())
	p.By[Pinned] += m.fixedPinned()
	// The share and not the ring that is made of it is taken off, so that a little
	// more budget never means a little less that is pinned.
	memory -= ring
	p.Lookup = m.lookup(memory)
	p.By[Cached] += p.Lookup
	m.pin(p, memory-p.Lookup)
}

// lookup returns what of the memory for weights is better used for reading rows of
// the head, as long as it is not all pinned.
func (m *planner) lookup(memory int64) int64 {
	if memory >= pageUp(m.Head.Bytes) {
		return 0
	}
	page := int64(os.Getpagesize())
	return min(pageUp(m.Lookup), memory/lookupDivisor/page*page)
}

// pieceFits reports whether a ring may be cut into pieces of this size: enough of
// them, and a unit fits beside the one that is being read.
func (m *planner) pieceFits(piece, ring int64) bool {
	pieces := ring / piece
	return pieces >= ringPieces && (pieces-1)*piece >= m.Unit
}

// moreRing is by how much a ring of so many bytes is larger than the smallest.
func (m *planner) moreRing(bytes int64) int64 {
	return max(0, bytes-m.minimumPieces()*m.Piece)
}

// pageUp rounds an amount of memory up to whole pages, as it is given out.
func pageUp(n int64) int64 {
	page := int64(os.Getpagesize())
	return (n + page - 1) / page * page
}

// roundUp returns n rounded up to a multiple of step.
func roundUp(n, step int) int { return (n + step - 1) / step * step }
