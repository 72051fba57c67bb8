package exec

import (
	"fmt"
	"math"
	"path/filepath"
	"sort"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/vfs"
)

// ggufReference holds, for a small model of every tensor type, logits computed in float64 from
// the dequantized weights, and the error of another engine that quantizes activations to 8 bits.
type ggufReference struct {
	IDs   []int32 `json:"ids"`
	Files map[string]ggufCase
}

type ggufCase struct {
	LogitsAt  map[string][]float32 `json:"logits_at"`
	ArgmaxAll []int32              `json:"argmax_all"`
	PeerDiff  float64              `json:"peer_max_abs_diff_at_listed_positions"`
	// PeerLogitsAt are the other engine's logits, which only some files have.
	PeerLogitsAt map[string][]float32 `json:"peer_logits_at"`
}

// worstAt returns the greatest difference of logits at the listed positions.
func worstAt(t *testing.T, got [][]float32, want map[string][]float32) (worst float64) {
	for pos, logits := range want {
		var i int
		_, err := fmt.Sscan(pos, &i)
		require.NoError(t, err)
		for j, w := range logits {
			worst = max(worst, math.Abs(float64(got[i][j]-w)))
		}
	}
	return worst
}

// errorAt returns the root mean square of differences of logits at the listed positions.
func errorAt(t *testing.T, got func(position int) []float32, want map[string][]float32) float64 {
	var sum, n float64
	for pos, logits := range want {
		i, err := strconv.Atoi(pos)
		require.NoError(t, err)
		for j, w := range logits {
			d := float64(got(i)[j] - w)
			sum, n = sum+d*d, n+1
		}
	}
	return math.Sqrt(sum / n)
}

// eachGGUF runs a test with every file of the gguf set and its reference, a file beside it.
func eachGGUF(t *testing.T, test func(t *testing.T, path string, ids []int32, want ggufCase)) {
	references := map[string]ggufReference{}
	for _, path := range ggufFiles(t) {
		dir, name := filepath.Split(path)
		reference, ok := references[dir]
		if !ok {
			testutil.ReadJSON(t, filepath.Join(dir, "expected.json"), &reference)
			references[dir] = reference
		}
		t.Run(name, func(t *testing.T) {
			want, ok := reference.Files[name]
			require.True(t, ok, "expected.json does not list the file")
			test(t, path, reference.IDs, want)
		})
	}
}

// ggufFiles returns the files of every tensor type: those of the checkout, and the low-bit types.
func ggufFiles(t *testing.T) []string {
	files := testutil.Glob(t, "gguf", "*.gguf")
	return append(files, testutil.Glob(t, "gguf_lowbit", "*.gguf")...)
}

func TestGGUFMatchesTheReference(t *testing.T) {
	eachGGUF(t, func(t *testing.T, path string, ids []int32, want ggufCase) {
		m := loadModel(t, vfs.OS(), path, Options{Threads: 2, Exact: true})
		got := allLogits(t, m, ids)
		require.LessOrEqual(t, worstAt(t, got, want.LogitsAt), 2e-3)
		for i, w := range want.ArgmaxAll {
			if top2Margin(got[i]) > 1e-2 {
				require.Equal(t, w, argmax(got[i]), "position %d", i)
			}
		}
	})
}

// TestQuantizedActivationsMatchThePeers runs the same models with activations quantized to 8
// bits. The maximum of some 1500 differences is partly chance, so one file may be slightly worse
// than the other engine's if all files together are better; their mean square says more.
func TestQuantizedActivationsMatchThePeers(t *testing.T) {
	var ours, peers float64
	eachGGUF(t, func(t *testing.T, path string, ids []int32, want ggufCase) {
		m := loadModel(t, vfs.OS(), path, Options{Threads: 2})
		got := allLogits(t, m, ids)
		worst := worstAt(t, got, want.LogitsAt)
		if want.PeerLogitsAt == nil {
			require.LessOrEqual(t, worst, max(1.3*want.PeerDiff, 2e-3))
		} else {
			require.LessOrEqual(t, worst, 1.5*want.PeerDiff)
			peers := errorAt(t, func(i int) []float32 { return want.PeerLogitsAt[strconv.Itoa(i)] }, want.LogitsAt)
			require.LessOrEqual(t, errorAt(t, func(i int) []float32 { return got[i] }, want.LogitsAt), 1.1*peers)
		}
		require.Equal(t, got, inSteps(t, m, ids), "logits depend on the chunks")
		ours, peers = ours+worst, peers+want.PeerDiff
	})
	require.Less(t, ours, peers)
}

// top2Margin returns the difference between the best and the second logit.
func top2Margin(x []float32) float32 {
	s := append([]float32(nil), x...)
	sort.Slice(s, func(i, j int) bool { return s[i] > s[j] })
	return s[0] - s[1]
}
