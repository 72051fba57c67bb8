//go:build !noasm

package tiled

// Scores are products of panels on these paths.

func (k neon) scores(a *scoreArgs, s *Scratch)       { panelScores(k, a, s) }
func (k neonDot) scores(a *scoreArgs, s *Scratch)    { panelScores(k, a, s) }
func (k neonMatrix) scores(a *scoreArgs, s *Scratch) { panelScores(k, a, s) }

func (k neon) scores4(a *scoreArgs, s *Scratch)       { matrixScores4(k, a, s) }
func (k neonDot) scores4(a *scoreArgs, s *Scratch)    { matrixScores4(k, a, s) }
func (k neonMatrix) scores4(a *scoreArgs, s *Scratch) { matrixScores4(k, a, s) }
