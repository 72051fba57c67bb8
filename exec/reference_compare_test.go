package exec

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
	"github.com/llmrun/llmrun/kv"
)

// TestPlainPassEqualsTheFastOne compares both for every family and the bundled model.
func TestPlainPassEqualsTheFastOne(t *testing.T) {
	dirs := append(fixtureDirs(t), hubmodel.Dir(testutil.Root(t)))
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			m := openFixture(t, dir, "config.json", plainOptions)
			requireEqualPasses(t, m, min(40, m.Spec.Context), false)
		})
	}
}

// TestPlainPassOfFieldsWithoutFixture sets what no fixture has: clipped projections and the
// bias of a convolution. It also passes the length at which frequencies change.
func TestPlainPassOfFieldsWithoutFixture(t *testing.T) {
	for _, c := range []struct {
		fixture string
		change  func(m *Model) (tokens int, long bool)
	}{
		{"olmoe", func(m *Model) (int, bool) { m.Spec.ClipQKV = 0.02; return 40, false }},
		{"lfm2", func(m *Model) (int, bool) {
			for l := range m.weights.Layers {
				if w := &m.weights.Layers[l]; w.Conv != nil {
					w.ConvBias = make([]float32, m.Spec.Dim)
					for i := range w.ConvBias {
						w.ConvBias[i] = float32(i%7-3) / 10
					}
				}
			}
			return 40, false
		}},
		{"phi3_longrope", func(m *Model) (int, bool) { return m.Spec.Ropes[0].Switch + 2, true }},
	} {
		t.Run(c.fixture, func(t *testing.T) {
			m := openFixture(t, testutil.Shared(t, "fixtures", c.fixture), "config.json", plainOptions)
			tokens, long := c.change(m)
			requireEqualPasses(t, m, tokens, long)
		})
	}
}

// plainOptions load weights as the plain pass reads them.
var plainOptions = Options{Exact: true, KV: kv.F32}

// requireEqualPasses compares the logits of both passes. The tolerance covers the different
// order of float32 additions.
func requireEqualPasses(t *testing.T, m *Model, tokens int, long bool) {
	t.Helper()
	var ids []int32
	for i := range tokens {
		ids = append(ids, int32((i*i*7+i*3+1)%m.Spec.Vocab))
	}
	fast, plain := allLogits(t, m, ids), newPlainPass(m)
	plain.long = long
	for i, id := range ids {
		want := plain.token(id)
		spread := deviation(want)
		for j := range want {
			require.InDelta(t, want[j], fast[i][j], 2e-3*spread, "token %d, logit %d", i, j)
		}
	}
}
