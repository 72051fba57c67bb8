package tiering

import "math"

// count records the bytes that passes read from flash.
func (m *planner) count(p *Plan) {
	layers, head := int64(0), m.Head.Bytes-p.HeadPinned
	for i := range m.Layers {
		layers += m.Layers[i].Bytes - p.Pinned[i]
	}
	p.StreamedPerToken = layers + head + m.expertReads(p, 1)
	p.StreamedPerChunk = layers + m.expertReads(p, p.Chunk)
}

// expertReads returns the bytes of experts that a number of tokens reads, if the
// router chooses evenly: the experts that any of the tokens uses, minus those in
// memory.
func (m *planner) expertReads(p *Plan, tokens int) int64 {
	if m.experts() == 0 {
		return 0
	}
	missing := 1 - float64(p.ExpertSlots)/float64(m.experts())
	return int64(missing * float64(m.ExpertLayers) * m.expertsUsedBy(tokens) * float64(m.ExpertBytes))
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
	// widthOps is the cost of an element of the hidden state in a layer besides
	// matmuls, such as attention, norms and quantization, in operations of matmuls.
	widthOps = 15e3
)

// together returns the time of computing and reading in parallel.
func together(compute, read float64) float64 {
	return max(compute, read) + overlapCost*min(compute, read)
}

// predict records the predicted speeds.
func (m *planner) predict(p *Plan) {
	r := p.Rates
	streams := p.StreamedPerToken > 0 || p.StreamedPerChunk > 0
	if streams && r.ReadGBs <= 0 {
		return
	}
	flash := func(bytes int64) float64 {
		if bytes == 0 {
			return 0
		}
		return float64(bytes) / (r.ReadGBs * 1e9)
	}
	if r.MemGBs > 0 {
		p.PredictedDecode = 1 / together(float64(m.TokenBytes())/(r.MemGBs*1e9), flash(p.StreamedPerToken))
	}
	if r.PrefillGops > 0 && m.OpsPerToken > 0 {
		ops := float64(m.OpsPerToken) + widthOps*float64(m.Width*len(m.Layers))
		work := float64(p.Chunk) * ops / (r.PrefillGops * 1e9)
		// The part of the head that is not in memory when the last token reaches it is
		// read while nothing computes.
		head := flash(max(0, m.Head.Bytes-p.HeadPinned-p.Ring))
		p.PredictedPrefill = float64(p.Chunk) / (together(work, flash(p.StreamedPerChunk)) + head)
	}
}
