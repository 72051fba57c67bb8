package segment

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store/vfs"
)

// TestRemoveFindsAllText removes a session whose text is also in segments that the session
// no longer names: a shorter tail of an earlier save, a replaced answer and what follows
// it, and a run with other settings. The segments of another text stay.
func TestRemoveFindsAllText(t *testing.T) {
	fsys := vfs.NewMem()
	s := openStore(t, fsys, 0)
	talk := randomTokens(1, 128)
	mustWrite(t, s, talk[:96], 16) // an earlier, shorter save
	replaced := append(append([]int32(nil), talk[:64]...), randomTokens(2, 160)...)
	mustWrite(t, s, replaced, 16)
	edited := append(append([]int32(nil), talk[:8]...), randomTokens(3, 64)...) // differs within the first segment
	mustWrite(t, s, edited, 16)
	other, err := s.dir.Store(NewKey(testLayout, "the same model with other settings"), testLayout)
	require.NoError(t, err)
	mustWrite(t, other, talk, 16)
	mustWrite(t, s, randomTokens(4, 64), 16)
	before := filesIn(t, fsys, "cache/kv", Suffix)
	require.NoError(t, save(s.dir, "talk", mustWrite(t, s, talk, 16)))

	freed, err := s.dir.RemoveSession("talk")
	require.NoError(t, err)
	require.Positive(t, freed)
	left := filesIn(t, fsys, "cache/kv", Suffix)
	require.Len(t, left, 1, "%d before", len(before))
	list, err := s.dir.List()
	require.NoError(t, err)
	f, err := openFile(fsys, s.dir.path(list[0].Name))
	require.NoError(t, err)
	require.Equal(t, randomTokens(4, 64), f.Tokens())
	require.NoError(t, f.file.Close())
}

// TestRemoveFindsFormerBeginnings removes a session that began otherwise before, twice, in locks of its own and in one
// lock: segments of all beginnings go, and those that another session needs or that begin otherwise stay.
func TestRemoveFindsFormerBeginnings(t *testing.T) {
	for _, oneLock := range []bool{false, true} {
		fsys := vfs.NewMem()
		s := openStore(t, fsys, 0)
		lock, err := s.dir.LockSession("talk")
		require.NoError(t, err)
		for seed := range uint64(3) {
			m := mustWrite(t, s, randomTokens(seed, 128), 16)
			if seed == 1 {
				m.Messages = []Message{{"user", "hello"}, {"assistant", "hi"}}
			}
			require.NoError(t, lock.Save(m))
			if !oneLock {
				require.NoError(t, lock.Close())
				lock, err = s.dir.LockSession("talk")
				require.NoError(t, err)
			}
		}
		require.NoError(t, lock.Save(mustWrite(t, s, randomTokens(1, 160), 16))) // as before
		require.NoError(t, lock.Close())
		m, err := s.dir.Session("talk")
		require.NoError(t, err)
		require.Len(t, m.Former, 2)
		require.Nil(t, m.Details)

		mustWrite(t, s, randomTokens(4, 64), 16)
		other := mustWrite(t, s, randomTokens(5, 64), 16)
		require.NoError(t, save(s.dir, "other", other))
		_, err = s.dir.RemoveSession("talk")
		require.NoError(t, err)
		require.Len(t, filesIn(t, fsys, "cache/kv", Suffix), 2)
	}
}

// TestRemovedSessionStaysRemoved cuts the power after a session was removed.
func TestRemovedSessionStaysRemoved(t *testing.T) {
	fsys := vfs.NewMem()
	s := openStore(t, fsys, 0)
	require.NoError(t, save(s.dir, "talk", mustWrite(t, s, randomTokens(1, 128), 16)))
	_, err := s.dir.RemoveSession("talk")
	require.NoError(t, err)
	fsys = fsys.CrashClone(0, 1) // nothing that was not synced survives
	require.Empty(t, filesIn(t, fsys, "cache/kv", Suffix))
	names, err := openDir(t, fsys, 0).SessionNames()
	require.NoError(t, err)
	require.Empty(t, names)
}

// TestRemovingADamagedSessionFreesItsSegments removes a session whose file is damaged: what no other session needs may
// hold its text, and goes with it.
func TestRemovingADamagedSessionFreesItsSegments(t *testing.T) {
	fsys := vfs.NewMem()
	s := openStore(t, fsys, 0)
	require.NoError(t, save(s.dir, "talk", mustWrite(t, s, randomTokens(1, 128), 16)))
	require.NoError(t, save(s.dir, "other", mustWrite(t, s, randomTokens(2, 64), 16)))
	change(t, fsys, s.dir.sessionPath("talk"), func(b []byte) []byte { return b[:len(b)-1] })
	freed, err := s.dir.RemoveSession("talk")
	require.NoError(t, err)
	require.Positive(t, freed)
	require.Len(t, filesIn(t, fsys, "cache/kv", Suffix), 1)
	_, err = s.dir.VerifySession("other")
	require.NoError(t, err)
}
