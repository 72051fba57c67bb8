//go:build !noasm

package tiled

// scoresDot4NEON and scoresMatrix4NEON score queries query to query+3, the others one query.
// scoresMatrix4NEON and scoresMixed1NEON need FEAT_I8MM.

//go:noescape
func scoresDot4NEON(a *scoreArgs, query int)

//go:noescape
func scoresDot1NEON(a *scoreArgs, query int)

//go:noescape
func scoresMatrix4NEON(a *scoreArgs, query int)

//go:noescape
func scoresMixed1NEON(a *scoreArgs, query int)

func (k neon) scores(a *scoreArgs, s *Scratch) { panelScores(k, a, s) }

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

func (neonMatrix) scores(a *scoreArgs, _ *Scratch) {
	if a.width < 4 {
		for q := range a.width {
			scoresMixed1NEON(a, q)
		}
		return
	}
	for q := 0; q < a.width; q += 4 {
		scoresMatrix4NEON(a, q)
	}
}

// The arm64 paths score 4-bit keys with their matmul kernels.

func (k neon) scores4(a *scoreArgs, s *Scratch)       { matrixScores4(k, a, s) }
func (k neonDot) scores4(a *scoreArgs, s *Scratch)    { matrixScores4(k, a, s) }
func (k neonMatrix) scores4(a *scoreArgs, s *Scratch) { matrixScores4(k, a, s) }
