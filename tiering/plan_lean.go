package tiering

// Lean returns the plan with the smallest possible ring for weights. Reads are then
// only slightly ahead of use, so that computation stalls when the flash is slow for a
// moment.
func (p *Plan) Lean(s Shape) *Plan {
	lean := *p
	if p.Ring == 0 {
		return &lean
	}
	m := planner{Shape: s, Need: Need{Piece: p.Piece}}
	if least := m.minimumPieces() * p.Piece; least < p.Ring {
		lean.Ring = least
		lean.By[Ring] -= p.Ring - least
	}
	return &lean
}
