package segment

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store/vfs"
)

// TestScratchFilesAreNoSegments opens a directory in which a killed process left a scratch file, and another process
// uses one: the first goes, and the second takes nothing of the room for segments.
func TestScratchFilesAreNoSegments(t *testing.T) {
	mem := vfs.NewMem()
	require.NoError(t, mem.MkdirAll("cache/kv"))
	const left, used = "cache/kv/scratch-1-0a.tmp", "cache/kv/scratch-2-0b.tmp"
	for _, name := range []string{left, used} {
		f, err := mem.Create(name)
		require.NoError(t, err)
		require.NoError(t, f.Truncate(1<<20))
		require.NoError(t, f.Close())
	}
	fsys := vfs.NewFaulty(mem, func(op vfs.Op) error {
		if op.Kind == vfs.OpRemove && op.Path == used {
			return fs.ErrPermission // as of an open file on Windows
		}
		return nil
	})
	s := openStore(t, fsys, 256<<10)
	_, err := mem.Stat(left)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = mem.Stat(used)
	require.NoError(t, err)
	mustWrite(t, s, randomTokens(1, 64), 16)
}

// TestSaveSyncsWhatOthersWroteAgain removes segments that a process has synced and writes them again without a sync, as
// another process may do before the session is saved. Then the power is cut.
func TestSaveSyncsWhatOthersWroteAgain(t *testing.T) {
	fsys := vfs.NewMem()
	ours, theirs := openStore(t, fsys, 0), openStore(t, fsys, 0)
	ids := randomTokens(1, 128)
	m := mustWrite(t, ours, ids, 16)
	last := m.Segments[len(m.Segments)-1].ID
	require.NoError(t, ours.WriteState(last, []byte("a state"), true, writeNow))
	count, _, err := theirs.dir.Clean()
	require.NoError(t, err)
	require.Positive(t, count)
	_, err = writeSegment(theirs, ids, 16, false)
	require.NoError(t, err)
	require.NoError(t, theirs.WriteState(last, []byte("a state"), false, writeNow))
	require.NoError(t, save(ours.dir, "talk", m))

	after := openStore(t, fsys.CrashClone(0, 1), 0) // nothing that was not synced survives
	spans, err := after.OpenSegments(m)
	require.NoError(t, err)
	requireSpans(t, spans)
	require.NoError(t, after.ReadState(last, make([]byte, len("a state"))))
	require.NoError(t, Close(spans))
}
