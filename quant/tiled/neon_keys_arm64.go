//go:build !noasm

package tiled

// Scores are products of panels on these paths.

func (k neon) scores(a *scoreArgs, s *Scratch)       { panelScores(k, a, s) }
func (k neonDot) scores(a *scoreArgs, s *Scratch)    { panelScores(k, a, s) }
func (k neonMatrix) scores(a *scoreArgs, s *Scratch) { panelScores(k, a, s) }
