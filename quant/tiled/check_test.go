package tiled

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/quant"
)

// TestCheckPassesOnEveryPath checks that CheckKeys accepts every path.
func TestCheckPassesOnEveryPath(t *testing.T) {
	for _, path := range paths() {
		usePath(t, path)
		for _, cols := range []int{32, 64, 96, 128, 256} {
			require.NoError(t, CheckKeys(cols, 8), "%s, %d", path.name(), cols)
			require.NoError(t, CheckKeys(cols, 4), "%s, %d", path.name(), cols)
		}
	}
}

// brokenKeys is a path in which one score has the smallest possible error.
type brokenKeys struct{ kernels }

func (brokenKeys) name() string { return "broken" }

func (k brokenKeys) scores(a *scoreArgs, s *Scratch) {
	k.kernels.scores(a, s)
	*a.y *= 1.0000001
}

func (k brokenKeys) scores4(a *scoreArgs, s *Scratch) {
	k.kernels.scores4(a, s)
	*a.y *= 1.0000001
}

// TestCheckFindsBrokenKernels checks that CheckKeys rejects a path with a wrong score.
func TestCheckFindsBrokenKernels(t *testing.T) {
	usePath(t, brokenKeys{active})
	for _, bits := range []int{8, 4} {
		err := CheckKeys(64, bits)
		require.ErrorIs(t, err, quant.ErrKernel)
		require.ErrorContains(t, err, "path broken")
	}
}
