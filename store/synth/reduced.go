package synth

import "strings"

// Reduced returns a shape with all features of its family that is small enough for a test of one. Rows of 96 are not
// whole blocks of the K types, rows of 256 are.
func (s Shape) Reduced() Shape {
	s.Layers, s.Dim, s.FFN, s.DenseFFN, s.SharedFFN, s.Vocab, s.Context = 4, 96, 256, min(s.DenseFFN, 512), min(s.SharedFFN, 64), 300, 64
	if s.Heads > 0 {
		s.Heads, s.KVHeads, s.HeadDim = 3*min(s.Heads/s.KVHeads, 2), 3, 32
	}
	if s.Encoder.on() {
		s.Dim = s.Heads * s.HeadDim
	}
	if m := &s.Latent; m.Rank > 0 {
		s.KVHeads, s.HeadDim = 1, 48
		*m = Latent{Rank: 96, QRank: min(m.QRank, 64), Rope: 16, Value: 32 * min(m.Value/64, 2), Joint: m.Joint}
		if m.Joint {
			s.KVHeads = s.Heads
		}
	}
	if g := &s.Layered; g.Interval > 0 { // layers 1 and 3 have no window
		g.Interval, g.HeadDim, g.KVHeads, g.SharedKV, g.PerLayer = 2, min(g.HeadDim, 64), min(g.KVHeads, 1), min(g.SharedKV, 2), min(g.PerLayer, 32)
		g.Streams.Laurel, g.Streams.Sparse = min(g.Streams.Laurel, 16), min(g.Streams.Sparse, 2)
		s.Window = 2
	}
	if s.Convs.Taps > 0 {
		s.Convs.Attends = []int{2}
	}
	s.Rope.Dim = min(s.Rope.Dim, 16)
	if s.Experts > 0 {
		s.Experts, s.ExpertsUsed, s.DenseLayers = 6, 2, min(s.DenseLayers, 2)
		s.Routing.Groups, s.Routing.Used = min(s.Routing.Groups, 3), min(s.Routing.Used, 2)
	}
	if d := &s.Deltas; d.Interval > 0 {
		d.Keys, d.Heads, d.HeadDim = 3, 3*min(d.Heads/d.Keys, 2), 32
	}
	if s.States.on() {
		s.States.reduce(s.Experts > 0)
	}
	return s
}

// reduce makes Mamba-2 small, in four layers.
func (m *States) reduce(experts bool) {
	m.Heads, m.HeadDim, m.Groups, m.Size = 6, 32, min(m.Groups, 2), 16
	if m.Attends != nil {
		m.Attends = []int{2}
	}
	switch {
	case m.Blocks == "":
	case strings.Contains(m.Blocks, "*") && experts:
		m.Blocks = "ME*E"
	case strings.Contains(m.Blocks, "*"):
		m.Blocks = "M-*-"
	default:
		m.Blocks = "MMMM"
	}
}
