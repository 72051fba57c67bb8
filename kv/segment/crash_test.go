package segment

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestSaveSurvivesCrashes loses power before every operation of a save that replaces
// an older session; none, some or all of the unsynced bytes survive. The session must
// be the old or the new one with all of its segments, and the new one after Save has
// returned.
func TestSaveSurvivesCrashes(t *testing.T) {
	for kind, of := range fileSystems {
		t.Run(kind, func(t *testing.T) { saveSurvivesCrashes(t, of) })
	}
}

func saveSurvivesCrashes(t *testing.T, of func(vfs.FS) vfs.FS) {
	older, newer := randomTokens(1, 44), randomTokens(1, 120)
	for _, keep := range []float64{0, 0.5, 1} {
		mem := vfs.NewMem()
		s := openStore(t, of(mem), 0)
		require.NoError(t, save(s.dir, "talk", mustWrite(t, s, older, 3)))
		crashes := 0
		check := func(k int64, mustBeNew bool) {
			after := openStore(t, of(mem.CrashClone(keep, uint64(k))), 0)
			m, err := after.dir.Session("talk")
			require.NoError(t, err, "crash before operation %d with %v of the unsynced bytes", k, keep)
			want := newer
			if !mustBeNew && len(m.Tokens) == len(older) {
				want = older
			}
			require.Equal(t, want, m.Tokens, "crash before operation %d with %v of the unsynced bytes", k, keep)
			_, err = after.dir.VerifySession("talk")
			require.NoError(t, err, "crash before operation %d with %v of the unsynced bytes", k, keep)
			parts, err := after.OpenSegments(m)
			require.NoError(t, err)
			requireSpans(t, parts)
			require.NoError(t, Close(parts))
			require.Empty(t, filesIn(t, after.dir.fsys, "cache/kv", vfs.TempMark), "OpenDir removes leftovers")
			require.Empty(t, filesIn(t, after.dir.fsys, "cache/sessions", vfs.TempMark))
			require.NoError(t, save(after.dir, "talk", mustWrite(t, after, newer, 3)), "the next save works")
			crashes++
		}
		watched := openStore(t, of(vfs.NewFaulty(mem, func(op vfs.Op) error {
			if op.Kind != vfs.OpRead && op.Kind != vfs.OpStat && op.Kind != vfs.OpReadDir && op.Kind != vfs.OpSize && op.Kind != vfs.OpOpen {
				check(op.Index, false)
			}
			return nil
		})), 0)
		require.NoError(t, save(watched.dir, "talk", mustWrite(t, watched, newer, 3)))
		check(-1, true)
		require.Greater(t, crashes, 50)
	}
}

// TestUnsyncedSegmentsAreSoundOrUnused checks that segments that are not durable may
// be lost with the power, but never have other contents.
func TestUnsyncedSegmentsAreSoundOrUnused(t *testing.T) {
	for kind, of := range fileSystems {
		t.Run(kind, func(t *testing.T) { unsyncedSegments(t, of) })
	}
}

func unsyncedSegments(t *testing.T, of func(vfs.FS) vfs.FS) {
	a := randomTokens(5, 120)
	mem := vfs.NewMem()
	damaged, sound := 0, 0
	watched := openStore(t, of(vfs.NewFaulty(mem, func(op vfs.Op) error {
		for _, keep := range []float64{0, 0.5, 0.95, 1} {
			after := openStore(t, of(mem.CrashClone(keep, uint64(op.Index))), 0)
			parts, err := after.Lookup(a)
			if err != nil {
				require.ErrorIs(t, err, store.ErrFormat)
				damaged++
			}
			for _, p := range parts {
				if err := p.File.VerifyAll(); err != nil {
					require.ErrorIs(t, err, store.ErrFormat)
					damaged++
					continue
				}
				requireSpans(t, []Span{p})
				sound++
			}
			require.NoError(t, Close(parts))
		}
		return nil
	})), 0)
	_, err := writeSegment(watched, a, 5, false)
	require.NoError(t, err)
	require.Positive(t, damaged)
	require.Positive(t, sound)
}

// kinds are the operations whose errors must be reported.
var kinds = map[vfs.OpKind]bool{
	vfs.OpRead: true, vfs.OpWrite: true, vfs.OpSync: true, vfs.OpSyncDir: true, vfs.OpRename: true, vfs.OpAllocate: true,
	vfs.OpCreate: true, vfs.OpMkdir: true, vfs.OpClose: true, vfs.OpOpen: true, vfs.OpSize: true, vfs.OpReadDir: true, vfs.OpStat: true,
}

// TestEveryFaultIsReported fails operation k of saving and opening a session, for
// every k. The error must name the path, the previous session must survive, and a
// retry must succeed.
func TestEveryFaultIsReported(t *testing.T) {
	for kind, of := range fileSystems {
		t.Run(kind, func(t *testing.T) { everyFaultIsReported(t, of) })
	}
}

func everyFaultIsReported(t *testing.T, of func(vfs.FS) vfs.FS) {
	older, newer := randomTokens(1, 44), randomTokens(1, 70)
	for k := int64(0); ; k++ {
		mem := vfs.NewMem()
		before := openStore(t, of(mem), 0)
		require.NoError(t, save(before.dir, "talk", mustWrite(t, before, older, 3)))
		var failed *vfs.Op
		saved := false
		faulty := of(vfs.NewFaulty(mem, func(op vfs.Op) error {
			reading := op.Kind == vfs.OpClose && (vfs.IsSealedName(op.Path) || !strings.Contains(op.Path, vfs.TempMark)) // closing a file after reading loses nothing
			if op.Index == k && kinds[op.Kind] && !reading {
				failed = &op
				return errInjected
			}
			return nil
		}))
		err := func() error {
			d, err := OpenDir(faulty, "cache", 0)
			if err != nil {
				return err
			}
			d.spare = 0
			defer d.Close()
			s, err := d.Store(testKey, testLayout)
			if err != nil {
				return err
			}
			m, err := writeSegment(s, newer, 3, true)
			if err == nil {
				err = save(d, "talk", m)
			}
			if err != nil {
				return err
			}
			saved = true
			if m, err = d.Session("talk"); err != nil {
				return err
			}
			parts, err := s.OpenSegments(m)
			if err != nil {
				return err
			}
			for _, p := range parts {
				err = errors.Join(err, p.File.VerifyAll())
			}
			return errors.Join(err, Close(parts))
		}()
		if failed == nil {
			require.NoError(t, err)
			if k > 200 {
				return
			}
			continue // an operation whose error may be ignored, such as a touch
		}
		require.ErrorIs(t, err, errInjected, "operation %d, %s %s", k, failed.Kind, failed.Path)
		require.ErrorContains(t, err, failed.Path)
		var ioErr *vfs.IOError
		require.ErrorAs(t, err, &ioErr)
		require.Equal(t, failed.Offset, ioErr.Off)
		after := openStore(t, of(mem), 0)
		m, err := after.dir.Session("talk")
		require.NoError(t, err)
		if saved {
			require.Equal(t, newer, m.Tokens)
		} else {
			require.Contains(t, [][]int32{older, newer}, m.Tokens) // the last sync comes after the rename
		}
		_, err = after.dir.VerifySession("talk")
		require.NoError(t, err)
		require.NoError(t, save(after.dir, "talk", mustWrite(t, after, newer, 3)))
		require.Empty(t, filesIn(t, of(mem), "cache/kv", vfs.TempMark), "operation %d, %s %s", k, failed.Kind, failed.Path)
	}
}

// TestDiskFull fails the k-th write and all later ones, for every k. No partial file
// may be visible, and a retry with free space must succeed.
func TestDiskFull(t *testing.T) {
	a := randomTokens(1, 120)
	for k := 0; ; k++ {
		mem := vfs.NewMem()
		writes, full := 0, true
		s := openStore(t, vfs.NewFaulty(mem, func(op vfs.Op) error {
			if op.Kind == vfs.OpWrite || op.Kind == vfs.OpAllocate {
				if writes++; full && writes > k {
					return syscall.ENOSPC
				}
			}
			return nil
		}), 0)
		m, err := writeSegment(s, a, 5, true)
		if err == nil {
			err = save(s.dir, "talk", m)
		}
		if err == nil {
			require.Greater(t, k, 15)
			return
		}
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.Empty(t, filesIn(t, mem, "cache/kv", vfs.TempMark))
		require.Empty(t, filesIn(t, mem, "cache/sessions", "session"+vfs.TempMark))
		_, err = s.dir.Session("talk")
		require.ErrorIs(t, err, fs.ErrNotExist)
		list, err := s.dir.List()
		require.NoError(t, err)
		for _, c := range list {
			f, err := s.acquire(c.Name)
			require.NoError(t, err)
			require.NoError(t, f.VerifyAll())
			require.NoError(t, f.Close())
		}
		full = false
		require.NoError(t, save(s.dir, "talk", mustWrite(t, s, a, 5)))
		_, err = s.dir.VerifySession("talk")
		require.NoError(t, err)
	}
}
