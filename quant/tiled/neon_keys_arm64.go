//go:build !noasm

package tiled

// The kernels of scores take the four queries that begin with one, or this alone.

//go:noescape
func scoresDot4NEON(a *scoreArgs, query int)

//go:noescape
func scoresDot1NEON(a *scoreArgs, query int)

func (k neon) scores(a *scoreArgs, s *Scratch) { panelScores(k, a, s) }

// scores is also neonMatrix's: bringing keys to the form that its products take
// costs more than they gain.
func (neonDot) scores(a *scoreArgs, _ *Scratch) {
	if a.width < 4 {
		for q := range a.width {
			scoresDot1NEON(a, q)
		}
		return
	}
	for q := 0; q < a.width; q += 4 {
		scoresDot4NEON(a, q)
	}
}

// Scores of 4-bit keys are products of panels on these paths.

func (k neon) scores4(a *scoreArgs, s *Scratch)       { matrixScores4(k, a, s) }
func (k neonDot) scores4(a *scoreArgs, s *Scratch)    { matrixScores4(k, a, s) }
func (k neonMatrix) scores4(a *scoreArgs, s *Scratch) { matrixScores4(k, a, s) }
