package exec

import (
	"fmt"
	"math"
	"path/filepath"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestGGUFMatchesTheReference runs a small model of every tensor type and
// compares with logits computed in float64 from the dequantized weights.
func TestGGUFMatchesTheReference(t *testing.T) {
	var expected struct {
		IDs   []int32 `json:"ids"`
		Files map[string]struct {
			LogitsAt  map[string][]float32 `json:"logits_at"`
			ArgmaxAll []int32              `json:"argmax_all"`
		}
	}
	dir := testutil.Shared(t, "gguf")
	testutil.ReadJSON(t, filepath.Join(dir, "expected.json"), &expected)
	for name, want := range expected.Files {
		t.Run(name, func(t *testing.T) {
			m := loadModel(t, vfs.OS(), filepath.Join(dir, name), Options{Threads: 2})
			got := allLogits(t, m, expected.IDs)
			for pos, logits := range want.LogitsAt {
				var i int
				_, err := fmt.Sscan(pos, &i)
				require.NoError(t, err)
				var worst float64
				for j, w := range logits {
					worst = max(worst, math.Abs(float64(got[i][j]-w)))
				}
				require.LessOrEqual(t, worst, 2e-3, "position %d", i)
			}
			for i, w := range want.ArgmaxAll {
				if top2Margin(got[i]) > 1e-2 {
					require.Equal(t, w, argmax(got[i]), "position %d", i)
				}
			}
		})
	}
}

// top2Margin is how far the best logit is ahead of the second.
func top2Margin(x []float32) float32 {
	s := append([]float32(nil), x...)
	sort.Slice(s, func(i, j int) bool { return s[i] > s[j] })
	return s[0] - s[1]
}
