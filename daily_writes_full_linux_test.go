package llmrun_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

// TestFullDiskIsNotTheWriteLimit spills to a full disk. The report names the disk, not the limit of
// daily writes, although the count of the day is what could not be written.
func TestFullDiskIsNotTheWriteLimit(t *testing.T) {
	testutil.OnSmallDisk(t, "4m", func(disk string) {
		dir := filepath.Join(disk, "cache")
		require.NoError(t, os.Mkdir(dir, 0o700))
		e := open(t, wide(t), llmrun.Options{
			Threads: 2, Context: 4096, Memory: llmrun.MemoryOptions{Chunk: 64, KV: "f32", RAM: llmrun.NoLimit, KVRAM: 1},
			Cache: llmrun.CacheOptions{KVDir: dir, NoKV: true},
		})
		err := os.WriteFile(filepath.Join(disk, "large"), make([]byte, 8<<20), 0o600)
		require.ErrorContains(t, err, "no space left")
		complete(t, newSession(t, e).GenerateIDs(context.Background(), someIDs(e, 700), limit(8)))
		failed := e.KVUse().Failed
		require.Contains(t, failed, "no space left")
		require.Contains(t, failed, "free some space, or choose a directory on another disk (--cache-dir)")
		require.NotContains(t, failed, "--cache-writes")
	})
}
