package segment

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// stateBytes are more than one piece of a verification.
const stateBytes = pieceBytes + 5000

// withState writes a session, and a state behind its last segment.
func withState(t *testing.T, s *Store, tokens []int32) (m *Manifest, last ID, state []byte) {
	t.Helper()
	m = mustWrite(t, s, tokens, 16)
	last, state = m.Segments[len(m.Segments)-1].ID, make([]byte, stateBytes)
	for i := range state {
		state[i] = byte(i * 7 >> 3)
	}
	require.NoError(t, s.WriteState(last, state, true, writeNow))
	require.NoError(t, save(s.dir, "talk", m))
	return m, last, state
}

// TestStatesAreVerified reads and verifies the state of a session, and one with damage.
func TestStatesAreVerified(t *testing.T) {
	for kind, of := range fileSystems {
		t.Run(kind, func(t *testing.T) {
			fsys := of(vfs.NewMem())
			s := openStore(t, fsys, 0)
			_, last, state := withState(t, s, randomTokens(1, 64))
			got := make([]byte, len(state))
			require.NoError(t, s.ReadState(last, got))
			require.Equal(t, state, got)
			largest := 0
			s.dir.AdmitReads(func(bytes int) func() { largest = max(largest, bytes); return func() {} })
			bytes, err := s.dir.VerifySession("talk")
			require.NoError(t, err)
			require.Greater(t, bytes, int64(pageAlign+stateBytes), "the segment is verified as well")
			require.LessOrEqual(t, largest, pieceBytes)

			for _, at := range []int{40, pageAlign - 1, pageAlign, pageAlign + stateBytes - 1} {
				change(t, fsys, s.dir.statePath(last), func(b []byte) []byte { b[at] ^= 1; return b })
				_, err = s.dir.VerifySession("talk")
				require.ErrorIs(t, err, store.ErrFormat, "byte %d", at)
				require.ErrorContains(t, err, stateSuffix)
				change(t, fsys, s.dir.statePath(last), func(b []byte) []byte { b[at] ^= 1; return b })
			}
			for _, length := range []int{10, pageAlign, pageAlign + 100} {
				change(t, fsys, s.dir.statePath(last), func(b []byte) []byte { return b[:min(length, len(b))] })
				_, err = s.dir.VerifySession("talk")
				require.True(t, isRefusal(err), "%d bytes: %v", length, err)
				require.Error(t, s.ReadState(last, got))
				require.NoError(t, s.WriteState(last, state, true, writeNow))
			}
		})
	}
}

// orphan returns a store with a limit for one segment, and with a state without one.
func orphan(t *testing.T, fsys vfs.FS) *Store {
	s := openStore(t, fsys, 2*stateBytes)
	m, last, _ := withState(t, s, randomTokens(1, 64))
	require.NoError(t, fsys.Remove(s.dir.sessionPath("talk")))
	require.NoError(t, fsys.Remove(s.dir.path(m.names()[0])))
	require.True(t, s.HasState(last))
	return s
}

// TestStatesWithoutASegmentAreRemoved makes room where only a state without a segment is in the way, cleans a directory
// of one, and removes a session beside one.
func TestStatesWithoutASegmentAreRemoved(t *testing.T) {
	for kind, of := range fileSystems {
		for name, remove := range map[string]func(s *Store) error{
			"evict": func(s *Store) error { return s.dir.makeRoom(stateBytes, 0) },
			"clean": func(s *Store) error { _, _, err := s.dir.Clean(); return err },
			"rm": func(s *Store) error {
				if err := save(s.dir, "other", mustWrite(t, s, randomTokens(2, 4), 16)); err != nil {
					return err
				}
				_, err := s.dir.RemoveSession("other")
				return err
			},
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				fsys := of(vfs.NewMem())
				s := orphan(t, fsys)
				require.NoError(t, remove(s))
				require.Empty(t, filesIn(t, fsys, "cache/kv", stateSuffix))
			})
		}
	}
}

// TestStateIsRemovedBeforeItsSegment fails the removal of a segment: no state is left behind. The bytes of a session are
// those of both.
func TestStateIsRemovedBeforeItsSegment(t *testing.T) {
	fsys := vfs.NewMem()
	s := openStore(t, fsys, 0)
	m, last, _ := withState(t, s, randomTokens(1, 64))
	info, err := fsys.Stat(s.dir.path(m.names()[0]))
	require.NoError(t, err)
	require.Equal(t, info.Size+pageAlign+stateBytes, s.dir.SessionBytes(m))
	list, err := s.dir.List()
	require.NoError(t, err)
	require.Len(t, list, 1)
	s.dir.fsys = &removalFails{fsys, s.dir.path(m.names()[0])}
	require.ErrorIs(t, s.dir.remove(list[0]), fs.ErrPermission)
	require.False(t, s.HasState(last))
}

// removalFails refuses to remove a file.
type removalFails struct {
	vfs.FS
	name string
}

func (f *removalFails) Remove(name string) error {
	if name == f.name {
		return fs.ErrPermission
	}
	return f.FS.Remove(name)
}
