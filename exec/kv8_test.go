package exec

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/kv"
)

// TestKV8IsCloseAndInvariant keeps keys and values in 8 bits: logits stay near
// the reference, and chunks and threads still do not matter.
func TestKV8IsCloseAndInvariant(t *testing.T) {
	for _, dir := range fixtureDirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			var ref reference
			testutil.ReadJSON(t, filepath.Join(dir, "reference.json"), &ref)
			m := openFixture(t, dir, "config.json", Options{Threads: 2, KV: kv.K8V8})
			logits := allLogits(t, m, ref.NLL.IDs)
			var sum float64
			for i := range ref.NLL.IDs[1:] {
				sum += nll(logits[i], ref.NLL.IDs[i+1])
			}
			mean := sum / float64(len(ref.NLL.IDs)-1)
			require.False(t, math.IsNaN(mean))
			require.InDelta(t, ref.NLL.MeanNLL, mean, 0.05)
			require.Equal(t, logits, inSteps(t, m, ref.NLL.IDs))
		})
	}
}
