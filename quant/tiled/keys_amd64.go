//go:build !noasm

package tiled

//go:noescape
func scores4AVX512(a *scoreArgs, first int)

//go:noescape
func scores1AVX512(a *scoreArgs, first int)

func (avx512) scores(a *scoreArgs, _ *Scratch) {
	if a.width < 4 {
		for t := range a.width {
			scores1AVX512(a, t)
		}
		return
	}
	for t := 0; t < a.width; t += 4 {
		scores4AVX512(a, t)
	}
}

//go:noescape
func scores2AVX2(a *scoreArgs, first int)

//go:noescape
func scores1AVX2(a *scoreArgs, first int)

//go:noescape
func scores2VNNI(a *scoreArgs, first int)

//go:noescape
func scores1VNNI(a *scoreArgs, first int)

func (avx2) scores(a *scoreArgs, _ *Scratch) {
	if a.width == 1 {
		scores1AVX2(a, 0)
		return
	}
	for t := 0; t < a.width; t += 2 {
		scores2AVX2(a, t)
	}
}

func (avxVNNI) scores(a *scoreArgs, _ *Scratch) {
	if a.width == 1 {
		scores1VNNI(a, 0)
		return
	}
	for t := 0; t < a.width; t += 2 {
		scores2VNNI(a, t)
	}
}

//go:noescape
func keys4x4AVX512(a *scoreArgs, first int)

//go:noescape
func keys4x1AVX512(a *scoreArgs, first int)

func (avx512) scores4(a *scoreArgs, _ *Scratch) {
	if a.width < 4 {
		for t := range a.width {
			keys4x1AVX512(a, t)
		}
		return
	}
	for t := 0; t < a.width; t += 4 {
		keys4x4AVX512(a, t)
	}
}

func (k avx2) scores4(a *scoreArgs, s *Scratch)    { matrixScores4(k, a, s) }
func (k avxVNNI) scores4(a *scoreArgs, s *Scratch) { matrixScores4(k, a, s) }
