package tiering

import "math"

// count says what is read from flash.
func (m *planner) count(p *Plan) {
	layers, head := int64(0), m.Head.Bytes-p.HeadPinned
	for i := range m.Layers {
		layers += m.Layers[i].Bytes - p.Pinned[i]
	}
	p.StreamedPerToken = layers + head + m.expertReads(p, 1)
	p.StreamedPerChunk = layers + m.expertReads(p, p.Chunk)
}

// expertReads returns the bytes of experts that are read for so many tokens, if
// each token's experts are drawn evenly: those that any of the tokens uses, as
// far as they are not in memory.
func (m *planner) expertReads(p *Plan, tokens int) int64 {
	if m.experts() == 0 {
		return 0
	}
	missing := 1 - float64(p.ExpertSlots)/float64(m.experts())
	return int64(missing * float64(m.ExpertLayers) * m.expertsSeen(tokens) * float64(m.ExpertBytes))
}

// expertsSeen returns how many experts of a layer some tokens use.
func (m *planner) expertsSeen(tokens int) float64 {
	if m.Experts == 0 {
		return 0
	}
	unused := 1 - float64(m.ExpertsUsed)/float64(m.Experts)
	return float64(m.Experts) * (1 - math.Pow(unused, float64(tokens)))
}

// predict fills in the speeds. Reads go on while the processor works, so that
// the slower of the two decides.
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
		used := float64(m.dense()) + float64(m.ExpertLayers)*m.expertsSeen(1)*float64(m.ExpertBytes)
		// What comes from flash is written to memory before it is read there.
		memory := (used + float64(p.StreamedPerToken)) / (r.MemGBs * 1e9)
		p.PredictedDecode = 1 / max(memory, flash(p.StreamedPerToken))
	}
	if r.PrefillGops > 0 && m.OpsPerToken > 0 {
		work := float64(p.Chunk) * float64(m.OpsPerToken) / (r.PrefillGops * 1e9)
		p.PredictedPrefill = float64(p.Chunk) / max(work, flash(p.StreamedPerChunk))
	}
}
