package llmrun_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

// TestPlanAndOpenAgreeOnASmallDisk: a disk that is too small for what a prompt must spill is found before
// the work. With the advised space, or the advised budget, it runs.
func TestPlanAndOpenAgreeOnASmallDisk(t *testing.T) {
	testutil.OnSmallDisk(t, "6m", func(disk string) { // of which 4 MiB stay free
		path := wide(t)
		o := spillingOptions(t, path)
		o.Cache.KVDir = filepath.Join(disk, "cache")
		o.Memory.PromptTokens = 700
		refusal := requireSameRefusal(t, path, o)
		require.Contains(t, refusal, "not enough room on the disk of "+o.Cache.KVDir)
		require.NotContains(t, refusal, "--cache-writes")
		require.Positive(t, advisedSize(t, refusal, "free at least"))
		raised := o
		raised.Memory.RAM = advisedSize(t, refusal, "needs at least")
		e := open(t, path, raised)
		ids := someIDs(e, 700)
		complete(t, newSession(t, e).GenerateIDs(t.Context(), ids, limit(1)))
		require.NoError(t, e.Close())

		o.Memory.PromptTokens = 0
		require.NoError(t, os.RemoveAll(o.Cache.KVDir))
		e = open(t, path, o)
		a := collect(newSession(t, e).GenerateIDs(t.Context(), ids, limit(1)))
		require.ErrorIs(t, a.err, llmrun.ErrBudget)
		require.ErrorIs(t, a.err, llmrun.ErrNoRoom)
		require.Zero(t, e.KVUse().Written)
	})
}
