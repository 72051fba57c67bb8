package exec

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// reference holds the logits and tokens that the reference implementation computed in float32
// for one fixture.
type reference struct {
	Prompts []struct {
		Name      string
		IDs       []int32              `json:"ids"`
		Logits    map[string][]float32 `json:"logits"`
		ArgmaxAll []int32              `json:"argmax_all"`
		LogitsStd []float64            `json:"logits_std"`
	}
	Greedy []struct {
		Prompt string
		IDs    []int32   `json:"ids"`
		Margin []float64 `json:"top1_top2_margin"`
	}
	NLL struct {
		IDs      []int32   `json:"ids"`
		MeanNLL  float64   `json:"mean_nll"`
		TokenNLL []float64 `json:"token_nll"`
	}
}

// prompt returns the ids of a named prompt.
func (r *reference) prompt(t *testing.T, name string) []int32 {
	for _, p := range r.Prompts {
		if p.Name == name {
			return p.IDs
		}
	}
	t.Fatalf("no prompt %q", name)
	return nil
}

// openFixture loads a fixture; config names the file to use as config.json.
func openFixture(t *testing.T, dir, config string, o Options) *Model {
	t.Helper()
	fsys := vfs.OS()
	if config != "config.json" {
		tmp := t.TempDir()
		for from, to := range map[string]string{config: "config.json", "model.safetensors": "model.safetensors"} {
			data, err := os.ReadFile(filepath.Join(dir, from))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(tmp, to), data, 0o600))
		}
		dir = tmp
	}
	return loadModel(t, fsys, dir, o)
}

// loadModel loads a model and checks at the end of the test that it has freed all its memory.
func loadModel(t *testing.T, fsys vfs.FS, path string, o Options) *Model {
	t.Helper()
	f, err := modelfile.Open(fsys, path)
	require.NoError(t, err)
	if o.Budget == nil {
		o.Budget = tiering.New(0)
	}
	m, err := Load(context.Background(), f, o)
	require.NoError(t, err)
	require.NoError(t, f.Close(), "weights are in memory, the files are not needed")
	t.Cleanup(func() {
		m.Close()
		require.NoError(t, o.Budget.Check())
	})
	return m
}

// allLogits returns the logits after every token.
func allLogits(t *testing.T, m *Model, ids []int32) [][]float32 {
	t.Helper()
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	return extendAll(t, m, s, ids)
}

// extendAll appends ids to a sequence and returns the logits after each.
func extendAll(t *testing.T, m *Model, s *Sequence, ids []int32) [][]float32 {
	t.Helper()
	var out [][]float32
	require.NoError(t, m.Extend(context.Background(), s, ids, &ExtendOptions{
		Want: func(int) bool { return true },
		Each: func(_ int, logits []float32) error {
			out = append(out, append([]float32(nil), logits...))
			return nil
		},
	}))
	return out
}

func argmax(x []float32) int32 {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return int32(best)
}

// nll is the negative log-likelihood of a token under the logits before it.
func nll(logits []float32, id int32) float64 {
	top := float64(logits[argmax(logits)])
	var sum float64
	for _, v := range logits {
		sum += math.Exp(float64(v) - top)
	}
	return math.Log(sum) + top - float64(logits[id])
}

// TestFixturesMatchTheReference compares every family, in both styles of config.json, with
// logits of another implementation.
func TestFixturesMatchTheReference(t *testing.T) {
	for _, dir := range modeltest.FixtureDirs(t) {
		var ref reference
		testutil.ReadJSON(t, filepath.Join(dir, "reference.json"), &ref)
		for _, config := range []string{"config.json", "config.hf5.json"} {
			if _, err := os.Stat(filepath.Join(dir, config)); err != nil {
				continue
			}
			t.Run(filepath.Base(dir)+"/"+config, func(t *testing.T) {
				m := openFixture(t, dir, config, Options{Threads: 2, Chunk: 16})
				ref.check(t, m)
			})
		}
	}
}

// check compares a model with everything in the reference.
func (r *reference) check(t *testing.T, m *Model) {
	for _, p := range r.Prompts {
		got := allLogits(t, m, p.IDs)
		for pos, want := range p.Logits {
			var i int
			_, err := fmt.Sscan(pos, &i)
			require.NoError(t, err)
			var worst float64
			for j, w := range want {
				worst = max(worst, math.Abs(float64(got[i][j]-w)))
			}
			require.LessOrEqual(t, worst, 2e-3, "prompt %s position %d", p.Name, i)
			require.LessOrEqual(t, worst/p.LogitsStd[i], 1e-3, "prompt %s position %d, relative", p.Name, i)
		}
	}
	for _, g := range r.Greedy {
		r.checkGreedy(t, m, r.prompt(t, g.Prompt), g.IDs, g.Margin)
	}
	var sum float64
	logits := allLogits(t, m, r.NLL.IDs)
	for i := range r.NLL.IDs[1:] {
		sum += nll(logits[i], r.NLL.IDs[i+1])
	}
	require.InDelta(t, r.NLL.MeanNLL, sum/float64(len(r.NLL.IDs)-1), 1e-4)
}

// checkGreedy decodes greedily and compares tokens as long as the margin between the two best
// logits is wide enough.
func (r *reference) checkGreedy(t *testing.T, m *Model, prompt, want []int32, margin []float64) {
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	var next int32
	read := &ExtendOptions{Each: func(_ int, logits []float32) error { next = argmax(logits); return nil }}
	ids := prompt
	for i, w := range want {
		require.NoError(t, m.Extend(context.Background(), s, ids, read))
		if margin[i] < 1e-2 {
			return // the texts may differ from here on
		}
		require.Equal(t, w, next, "generated token %d", i)
		ids = []int32{next}
	}
}

// wideContext returns a fixture whose config.json was changed to allow a long context.
func wideContext(t *testing.T) string {
	t.Helper()
	return longFixture(t, "llama3", 8192, 0)
}
