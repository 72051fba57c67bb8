package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func create(t *testing.T, fsys FS, name, content string) File {
	t.Helper()
	f, err := fsys.Create(name)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte(content), 0)
	require.NoError(t, err)
	return f
}

func contents(t *testing.T, fsys FS, name string) string {
	t.Helper()
	data, err := ReadFile(fsys, name, 1<<20)
	require.NoError(t, err)
	return string(data)
}

func TestCrashKeepsSyncedData(t *testing.T) {
	m := NewMem()
	f := create(t, m, "f", "durable")
	_, err := m.CrashClone(0, 1).Stat("f")
	require.Error(t, err, "the entry was not synced")
	require.NoError(t, m.SyncDir("."))
	require.Empty(t, contents(t, m.CrashClone(0, 1), "f"), "the bytes were not synced")
	require.NoError(t, f.Sync())
	_, err = f.WriteAt([]byte("pending"), 0)
	require.NoError(t, err)
	require.Equal(t, "durable", contents(t, m.CrashClone(0, 1), "f"))
	require.Equal(t, "pending", contents(t, m.CrashClone(1, 1), "f"))
	require.Equal(t, "pending", contents(t, m, "f"), "the original is unchanged")
	require.NoError(t, f.Truncate(2))
	require.Equal(t, "durable", contents(t, m.CrashClone(0, 1), "f"))
	require.Equal(t, "pe", contents(t, m.CrashClone(1, 1), "f"))
}

func TestCrashTearsWritesBySector(t *testing.T) {
	m := NewMem()
	f := create(t, m, "f", strings.Repeat("a", 64*sectorBytes))
	require.NoError(t, f.Sync())
	require.NoError(t, m.SyncDir("."))
	_, err := f.WriteAt(bytes.Repeat([]byte("b"), 64*sectorBytes), 0)
	require.NoError(t, err)
	torn := contents(t, m.CrashClone(0.5, 7), "f")
	require.Equal(t, torn, contents(t, m.CrashClone(0.5, 7), "f"), "equal seeds give equal results")
	require.NotEqual(t, torn, contents(t, m.CrashClone(0.5, 8), "f"))
	old := 0
	for i := 0; i < len(torn); i += sectorBytes {
		sector := torn[i : i+sectorBytes]
		require.Equal(t, strings.Repeat(sector[:1], sectorBytes), sector, "a sector is old or new")
		old += strings.Count(sector[:1], "a")
	}
	require.Greater(t, old, 10)
	require.Less(t, old, 54)
}

func TestCrashDropsFilesOfLostDirectories(t *testing.T) {
	m := NewMem()
	require.NoError(t, m.MkdirAll("a/b"))
	f := create(t, m, "a/b/f", "x")
	require.NoError(t, f.Sync())
	require.NoError(t, m.SyncDir("a/b"))
	require.NoError(t, m.SyncDir("a"))
	_, err := m.CrashClone(0, 1).Stat("a/b/f")
	require.Error(t, err, "a itself was not synced")
	require.NoError(t, m.SyncDir("."))
	require.Equal(t, "x", contents(t, m.CrashClone(0, 1), "a/b/f"))
}

func TestCrashUndoesUnsyncedRenameAndRemove(t *testing.T) {
	m := NewMem()
	require.NoError(t, WriteFile(m, "f", []byte("old")))
	require.NoError(t, WriteFile(m, "g", []byte("other")))
	f := create(t, m, "new", "new")
	require.NoError(t, f.Sync())
	require.NoError(t, m.Rename("new", "f"))
	require.NoError(t, m.Remove("g"))
	crashed := m.CrashClone(0, 1)
	require.Equal(t, "old", contents(t, crashed, "f"))
	require.Equal(t, "other", contents(t, crashed, "g"))
	require.NoError(t, m.SyncDir("."))
	crashed = m.CrashClone(0, 1)
	require.Equal(t, "new", contents(t, crashed, "f"))
	_, err := crashed.Stat("g")
	require.Error(t, err)
}

// TestWriteAtomicSurvivesCrashes loses power before every operation of
// WriteAtomic, and keeps none, some or all of the unsynced bytes: the file is
// the old or the new one, and the new one once WriteAtomic has returned.
func TestWriteAtomicSurvivesCrashes(t *testing.T) {
	oldData, newData := strings.Repeat("old", 1000), strings.Repeat("new!", 1000)
	for _, keep := range []float64{0, 0.5, 1} {
		m := NewMem()
		require.NoError(t, WriteFile(m, "f", []byte(oldData)))
		crashes := 0
		watched := NewFaulty(m, func(op Op) error {
			got := contents(t, m.CrashClone(keep, uint64(op.Index)), "f")
			if got != oldData && got != newData {
				t.Errorf("crash before %s with %v kept leaves a mixture", op.Kind, keep)
			}
			crashes++
			return nil
		})
		require.NoError(t, WriteFile(watched, "f", []byte(newData)))
		require.GreaterOrEqual(t, crashes, 5)
		require.Equal(t, newData, contents(t, m.CrashClone(keep, 0), "f"))
	}
}

// TestWriteAtomicReportsEveryFault fails operation k for every k: WriteAtomic returns the
// error, the file is the old or the new one, and the temporary file does not exist unless
// its removal failed.
func TestWriteAtomicReportsEveryFault(t *testing.T) {
	injected := errors.New("injected")
	for k := int64(0); ; k++ {
		m := NewMem()
		require.NoError(t, WriteFile(m, "f", []byte("old")))
		failed := OpKind("")
		err := WriteFile(NewFaulty(m, func(op Op) error {
			if op.Index == k {
				failed = op.Kind
				return injected
			}
			return nil
		}), "f", []byte("new"))
		if failed == "" {
			require.NoError(t, err)
			require.Equal(t, "new", contents(t, m, "f"))
			require.GreaterOrEqual(t, k, int64(6))
			return
		}
		require.ErrorIs(t, err, injected, "failed %s", failed)
		require.ErrorContains(t, err, string(failed))
		require.Contains(t, []string{"old", "new"}, contents(t, m, "f"))
		infos, err := m.ReadDir(".")
		require.NoError(t, err)
		require.Len(t, infos, 1, "failed %s left %v", failed, infos)
	}
}

func TestWriteAtomicReportsItsWriter(t *testing.T) {
	m := NewMem()
	cause := errors.New("no more")
	err := WriteAtomic(m, "f", func(w io.Writer) error {
		fmt.Fprint(w, "part")
		return cause
	})
	require.ErrorIs(t, err, cause)
	infos, err := m.ReadDir(".")
	require.NoError(t, err)
	require.Empty(t, infos)
}
