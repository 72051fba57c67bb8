package tiering

// Lean returns the plan with the smallest ring that weights can pass through. What
// is read is no longer far ahead of its use then, so that a slow moment of the
// flash makes the arithmetic wait.
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
