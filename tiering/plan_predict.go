package tiering

import (
	"cmp"
	"math"
)

// count records the bytes that passes read from flash.
func (m *planner) count(p *Plan) {
	layers, head := int64(0), m.Head.Bytes-p.HeadPinned
	for i := range m.Layers {
		layers += m.Layers[i].Bytes - p.Pinned[i]
	}
	p.StreamedPerToken = layers + head + m.expertReads(p, 1, &p.Rates)
	p.StreamedPerChunk = layers + m.expertReads(p, p.Chunk, &p.Rates)
}

// defaultReuse is Rates.ExpertReuse of a model that did not run yet. Routers have favourites and
// choose some of the last token's experts again; how many depends on the model and on the text.
// This is a middle: 1 is a router that chooses evenly.
const defaultReuse = 4

// expertReads returns the bytes of experts that a number of tokens reads: the experts that any of
// the tokens uses, minus those in memory. Many tokens use nearly all experts, so favourites
// matter less.
func (m *planner) expertReads(p *Plan, tokens int, r *Rates) int64 {
	if m.experts() == 0 {
		return 0
	}
	absent := 1 - float64(p.ExpertSlots)/float64(m.experts())
	reuse := cmp.Or(r.ExpertReuse, defaultReuse)
	missing := math.Pow(absent, 1+(reuse-1)/float64(max(1, tokens)))
	return int64(missing * float64(m.expertBytesOf(tokens)))
}

// firstExpertReads returns the bytes of experts that the first tokens of a process read besides
// expertReads: no expert is in memory yet, unless all of them are.
func (m *planner) firstExpertReads(p *Plan, tokens int, r *Rates) int64 {
	if m.experts() == p.ExpertSlots {
		return 0
	}
	return m.expertBytesOf(tokens) - m.expertReads(p, tokens, r)
}

// expertBytesOf returns the bytes of the experts that any of a number of tokens uses.
func (m *planner) expertBytesOf(tokens int) int64 {
	return int64(float64(m.ExpertLayers) * m.expertsUsedBy(tokens) * float64(m.ExpertBytes))
}

// expertsUsedBy returns the expected number of experts of a layer that a number of
// tokens uses.
func (s *Shape) expertsUsedBy(tokens int) float64 {
	if s.Experts == 0 {
		return 0
	}
	unused := 1 - float64(s.ExpertsUsed)/float64(s.Experts)
	return float64(s.Experts) * (1 - math.Pow(unused, float64(tokens)))
}

// TokenBytes returns the bytes of weights in the matmuls of one token.
func (s *Shape) TokenBytes() int64 {
	n := s.Head.Bytes + int64(s.ExpertLayers)*int64(s.ExpertsUsed)*s.ExpertBytes
	for i := range s.Layers {
		n += s.Layers[i].Bytes
	}
	return n
}

// Constants fitted to three model shapes on one machine, see docs/results/budget.md.
const (
	// overlapCost is the fraction of the shorter of computing and reading that adds
	// to the total time, because both use the cores and the memory.
	overlapCost = 0.1
	// elementOps is the cost of one of Shape.Elements besides matmuls and attention, in
	// operations of matmuls.
	elementOps = 10e3
)

// together returns the time of computing and reading in parallel.
func together(compute, read float64) float64 {
	return max(compute, read) + overlapCost*min(compute, read)
}

// predict records the predicted speeds.
func (m *planner) predict(p *Plan) {
	c := coster{m, p, p.Rates}
	if p.Predicted = m.forecast(p); p.Predicted == nil {
		return
	}
	p.PredictedDecode = p.Predicted.DecodeStart
	p.PredictedPrefill = float64(p.Chunk) / (c.chunkTime(0, p.Chunk) + c.headTime())
}
