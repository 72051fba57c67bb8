package segment

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

func TestLookupFindsTheLongestPrefix(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"mem": vfs.NewMem(), "os": vfs.Sub(vfs.OS(), t.TempDir())} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, fsys, 0)
			a := randomTokens(1, 103)
			mustWrite(t, s, a, 16)                             // segments of 16 and 9 pages
			require.Equal(t, 100, found(t, s, a))              // 3 tokens are not a whole page
			require.Equal(t, 64, found(t, s, a[:64]))          // the first segment
			require.Equal(t, 20, found(t, s, a[:21]))          // 5 of its pages
			require.Equal(t, 72, found(t, s, a[:75]))          // 2 pages of the second segment
			require.Zero(t, found(t, s, a[:3]))                // less than a page
			require.Zero(t, found(t, s, randomTokens(2, 100))) // other tokens
			other := append(append([]int32(nil), a[:70]...), randomTokens(3, 30)...)
			require.Equal(t, 68, found(t, s, other))
			mustWrite(t, s, other, 16)
			require.Equal(t, 100, found(t, s, other))
			require.Equal(t, 100, found(t, s, a), "two sequences continue the same segment")
			require.Len(t, filesIn(t, fsys, "cache/kv", Suffix), 3)

			again := openStore(t, fsys, 0) // another process
			require.Equal(t, 100, found(t, again, other))
			before := again.dir.Written()
			mustWrite(t, again, other, 16)
			require.Equal(t, before, again.dir.Written(), "an existing segment is not written again")
			require.Empty(t, s.dir.open, "every segment was closed")
		})
	}
}

// TestOtherModelFindsNothing checks that different models, settings and layouts share
// no segments.
func TestOtherModelFindsNothing(t *testing.T) {
	fsys := vfs.NewMem()
	s := openStore(t, fsys, 0)
	a := randomTokens(1, 40)
	m := mustWrite(t, s, a, 16)
	for _, key := range []ID{NewKey(testLayout, "another"), NewKey(testLayout, "a model", ""), NewKey(Layout{PageTokens: 4, PageBytes: testLayout.PageBytes}, "a model")} {
		other, err := s.dir.Store(key, testLayout)
		require.NoError(t, err)
		require.Zero(t, found(t, other, a))
		_, err = other.OpenSegments(m)
		require.ErrorIs(t, err, store.ErrFormat)
		require.ErrorContains(t, err, "another model")
	}
	_, err := s.dir.Store(testKey, Layout{PageTokens: 0, PageBytes: []int{1}})
	require.Error(t, err)
}

func TestLayerRunsAreAligned(t *testing.T) {
	s := openStore(t, vfs.Sub(vfs.OS(), t.TempDir()), 0)
	a := randomTokens(1, 64)
	f, err := s.Write(testKey, 0, a, pagesOf(Next(testKey, a)), false, writeNow)
	require.NoError(t, err)
	require.Equal(t, a, f.Tokens())
	require.Zero(t, f.Size()%4096)
	end := int64(0)
	for l, n := range testLayout.PageBytes {
		r, off, size := f.LayerRun(l)
		require.Zero(t, off%4096)
		require.EqualValues(t, n*f.Pages(), size)
		require.LessOrEqual(t, off+alignUp(size), f.Size())
		require.GreaterOrEqual(t, off, end)
		end = off + size
		b := vfs.AlignDirect(make([]byte, alignUp(size)+4096))[:alignUp(size)]
		_, err := r.ReadAt(b, off)
		require.NoError(t, err, "a read to the next multiple of 4096 is inside the file")
	}
	require.NoError(t, f.VerifyAll())
	require.NoError(t, f.Retain().Close())
	require.NoError(t, f.VerifyAll(), "the file still has a user")
	require.NoError(t, f.Close())
	require.Error(t, f.Close())
}

// TestFilesArePrivate checks that other users cannot read the files.
func TestFilesArePrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("permissions are not bits there")
	}
	dir := t.TempDir()
	s := openStore(t, vfs.Sub(vfs.OS(), dir), 0)
	require.NoError(t, save(s.dir, "mine", mustWrite(t, s, randomTokens(1, 40), 16)))
	seen := 0
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, "cache"), func(path string, e os.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := e.Info()
		require.NoError(t, err)
		want := os.FileMode(0o600)
		if e.IsDir() {
			want = 0o700
		}
		require.Equal(t, want, info.Mode().Perm(), path)
		seen++
		return nil
	}))
	require.GreaterOrEqual(t, seen, 5)
}

// shortFS returns fewer bytes than requested without an error.
type shortFS struct{ vfs.FS }

type shortFile struct{ vfs.File }

func (s shortFS) Open(name string) (vfs.File, error) {
	f, err := s.FS.Open(name)
	return shortFile{f}, err
}

func (s shortFile) ReadAt(p []byte, off int64) (int, error) {
	if off == 0 {
		return s.File.ReadAt(p, off) // headers are complete
	}
	n, err := s.File.ReadAt(p[:len(p)-1], off)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// TestShortReadsExposeNoOtherBytes checks that the previous contents of a buffer
// never count as a page.
func TestShortReadsExposeNoOtherBytes(t *testing.T) {
	mem := vfs.NewMem()
	a := randomTokens(1, 40)
	mustWrite(t, openStore(t, mem, 0), a, 16)
	s := openStore(t, shortFS{mem}, 0)
	parts, err := s.Lookup(a)
	require.NoError(t, err)
	require.Len(t, parts, 1)
	poisoned := make([]byte, 10*2048)
	for i := range poisoned {
		poisoned[i] = 0xdb
	}
	err = parts[0].File.ReadLayer(0, 10, poisoned)
	require.ErrorIs(t, err, store.ErrTruncated)
	require.Error(t, parts[0].File.VerifyAll())
	require.NoError(t, Close(parts))
}

// TestWriterChecksItsPages checks that Write refuses pages of a wrong size and leaves
// no file.
func TestWriterChecksItsPages(t *testing.T) {
	fsys := vfs.NewMem()
	s := openStore(t, fsys, 0)
	_, err := s.Write(testKey, 0, randomTokens(1, 16), func(int, int) ([]byte, error) { return make([]byte, 10), nil }, false, writeNow)
	require.ErrorContains(t, err, "a page of 10 bytes")
	for _, n := range []int{0, 3, 17 * 4} {
		_, err = s.Write(testKey, 0, randomTokens(1, n), nil, false, writeNow)
		require.ErrorContains(t, err, "do not make 1 to 16 whole pages")
	}
	require.Empty(t, filesIn(t, fsys, "cache/kv", ""))
}

// TestDamagedSegmentIsNotFoundTwice checks that the error names a damaged segment and
// that the next lookup does not find it.
func TestDamagedSegmentIsNotFoundTwice(t *testing.T) {
	fsys := vfs.NewMem()
	s := openStore(t, fsys, 0)
	a := randomTokens(1, 40)
	mustWrite(t, s, a, 16)
	name := "cache/kv/" + filesIn(t, fsys, "cache/kv", Suffix)[0]
	change(t, fsys, name, func(b []byte) []byte { b[120]++; return b })
	parts, err := s.Lookup(a)
	require.Empty(t, parts)
	require.ErrorIs(t, err, store.ErrFormat)
	require.ErrorContains(t, err, name)
	require.Zero(t, found(t, s, a))

	mustWrite(t, s, a, 16)
	change(t, fsys, name, func(b []byte) []byte { b[len(b)-5000]++; return b })
	parts, err = s.Lookup(a)
	require.NoError(t, err, "Lookup verifies headers only")
	var corrupt *CorruptError
	require.ErrorAs(t, parts[0].File.VerifyAll(), &corrupt)
	require.Equal(t, 2, corrupt.Layer)
	require.NoError(t, s.Discard(parts[0].File))
	require.NoError(t, Close(parts))
	require.Zero(t, found(t, s, a))
	mustWrite(t, s, a, 16)
	require.Equal(t, 40, found(t, s, a))
}

// TestSaveVerifiesSegmentsOfOtherProcesses checks that a segment with a valid header
// but lost pages, as after a crash, does not become part of a session.
func TestSaveVerifiesSegmentsOfOtherProcesses(t *testing.T) {
	fsys := vfs.NewMem()
	a := randomTokens(1, 40)
	mustWrite(t, openStore(t, fsys, 0), a, 16)
	name := "cache/kv/" + filesIn(t, fsys, "cache/kv", Suffix)[0]
	change(t, fsys, name, func(b []byte) []byte { clear(b[4096:]); return b })
	s := openStore(t, fsys, 0)
	require.NoError(t, save(s.dir, "x", mustWrite(t, s, a, 16)))
	_, err := s.dir.VerifySession("x")
	require.NoError(t, err)
	require.Equal(t, 40, found(t, s, a))
}

var errInjected = errors.New("injected")

// TestLookupOnAReadOnlyDisk checks that Lookup works without an error.
func TestLookupOnAReadOnlyDisk(t *testing.T) {
	mem, _, _ := saved(t)
	s := openStore(t, vfs.NewFaulty(mem, func(op vfs.Op) error {
		if op.Kind == vfs.OpTouch {
			return fs.ErrPermission
		}
		return nil
	}), 0)
	require.Equal(t, 8, found(t, s, randomTokens(1, 10)))
}
