package digest

import (
	"crypto/sha256"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// forget empties the memory of the process, as a new process begins.
func forget() {
	ofProcess.Lock()
	defer ofProcess.Unlock()
	clear(ofProcess.known[memoName])
	clear(ofProcess.known[freshName])
}

// settledFile writes a file and returns its stamp, which proves that the file is unchanged once two seconds have
// passed: tests move the clock instead of waiting.
func settledFile(t *testing.T, content string) (path string, stamp vfs.Stamp) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path, stampOf(t, path)
}

func stampOf(t *testing.T, path string) vfs.Stamp {
	t.Helper()
	f, err := vfs.OS().Open(path)
	require.NoError(t, err)
	defer f.Close()
	stamp, ok, err := vfs.StampOf(f)
	require.NoError(t, err)
	require.True(t, ok)
	return stamp
}

// TestHash compares with the hash of the standard library, for a file longer than one read.
func TestHash(t *testing.T) {
	data := make([]byte, readBytes+5)
	data[readBytes] = 1
	fsys := vfs.NewMem()
	require.NoError(t, vfs.WriteFile(fsys, "a", data))
	read := int64(0)
	d, err := Of(t.Context(), fsys, "a", func(n int64) { read += n })
	require.NoError(t, err)
	require.Equal(t, File{Sum: sha256.Sum256(data), Size: int64(len(data))}, d)
	require.EqualValues(t, len(data), read)
}

// TestRememberedUntilTheStampChanges gives a memo a false hash, which shows whether the file
// is read. The next process finds it too.
func TestRememberedUntilTheStampChanges(t *testing.T) {
	path, stamp := settledFile(t, "weights")
	dir := filepath.Join(t.TempDir(), "cache")
	memo := NewMemo(vfs.OS(), dir)
	known := Sum{1, 2, 3}
	change := map[string]func(s *vfs.Stamp){
		"size":     func(s *vfs.Stamp) { s.Size++ },
		"modified": func(s *vfs.Stamp) { s.Modified++ },
		"changed":  func(s *vfs.Stamp) { s.Changed++ },
		"inode":    func(s *vfs.Stamp) { s.Inode++ },
		"device":   func(s *vfs.Stamp) { s.Device++ },
	}
	for _, name := range []string{"", "size", "modified", "changed", "inode", "device"} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.RemoveAll(dir))
			was, want := stamp, known
			if name != "" {
				change[name](&was)
				want = sha256.Sum256([]byte("weights"))
			}
			memo.add(memoName, was, entry{known, 1})
			for range 2 {
				d, err := memo.Of(t.Context(), vfs.OS(), path, nil)
				require.NoError(t, err)
				require.Equal(t, want, d.Sum)
				forget() // the second time it is in the file
			}
		})
	}
	info, err := os.Stat(filepath.Join(dir, memoName))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
}

// TestFreshFilesAreReadAgain changes a file without another size or time, as fast as the
// clock of a file system permits.
func TestFreshFilesAreReadAgain(t *testing.T) {
	path, _ := settledFile(t, "weights")
	memo := NewMemo(vfs.OS(), t.TempDir())
	for _, content := range []string{"weights", "heights"} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		d, err := memo.Of(t.Context(), vfs.OS(), path, nil)
		require.NoError(t, err)
		require.Equal(t, Sum(sha256.Sum256([]byte(content))), d.Sum)
	}
	require.Empty(t, memo.load(memoName), "the file may change again in the same tick of the clock")

	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(d time.Duration) int64 { return now.Add(d).UnixNano() }
	require.True(t, vfs.Stamp{Changed: at(-time.Minute), Modified: at(-time.Hour)}.Settled(now))
	require.True(t, vfs.Stamp{Changed: at(-time.Minute), Modified: at(time.Hour)}.Settled(now), "a time that a program has set")
	require.False(t, vfs.Stamp{Changed: at(-time.Second), Modified: at(-time.Hour)}.Settled(now))
	require.False(t, vfs.Stamp{Changed: at(-time.Minute), Modified: at(-time.Second)}.Settled(now))
	require.False(t, vfs.Stamp{Changed: at(time.Hour), Modified: at(-time.Hour)}.Settled(now), "the clock was set back")
}

// TestWrittenFilesAreNotReadAgain hands over the hash of a file that was just written: it is found at once, also by the
// next process, and a later write shows although it comes within the same tick of the clock and keeps the size.
func TestWrittenFilesAreNotReadAgain(t *testing.T) {
	forget()
	path, _ := settledFile(t, "weights")
	memo := NewMemo(vfs.OS(), filepath.Join(t.TempDir(), "cache"))
	known := Sum{1, 2, 3} // shows that the file is not read
	require.NoError(t, memo.Written(vfs.OS(), path, known, int64(len("weights"))))
	for range 2 {
		require.True(t, memo.Knows(vfs.OS(), []string{path}))
		d, err := memo.Of(t.Context(), vfs.OS(), path, func(int64) { t.Error("the file is read") })
		require.NoError(t, err)
		require.Equal(t, known, d.Sum)
		forget() // the second time it is in the file
	}
	require.NoError(t, os.WriteFile(path, []byte("heights"), 0o600))
	d, err := memo.Of(t.Context(), vfs.OS(), path, nil)
	require.NoError(t, err)
	require.Equal(t, Sum(sha256.Sum256([]byte("heights"))), d.Sum)

	other, _ := settledFile(t, "weights")
	require.ErrorIs(t, memo.Written(vfs.OS(), other, known, 3), store.ErrChanged)
	require.False(t, memo.Knows(vfs.OS(), []string{other}), "it has another size")
	stuck := vfs.NewFaulty(vfs.OS(), func(op vfs.Op) error {
		if op.Kind == vfs.OpTouch {
			return os.ErrPermission
		}
		return nil
	})
	require.ErrorIs(t, memo.Written(stuck, other, known, int64(len("weights"))), os.ErrPermission)
	require.False(t, memo.Knows(vfs.OS(), []string{other}), "its time cannot be set back")
}

// TestDamagedMemo flips every bit of a memo's file. No flip yields a hash.
func TestDamagedMemo(t *testing.T) {
	whole := encode(map[vfs.Stamp]entry{{Size: 5, Inode: 1}: {Sum{1}, 1}, {Size: 6, Inode: 2}: {Sum{2}, 2}})
	require.Len(t, decode(whole), 2)
	for i := range whole {
		for bit := range 8 {
			whole[i] ^= 1 << bit
			require.Nil(t, decode(whole), "byte %d", i)
			whole[i] ^= 1 << bit
		}
		require.Nil(t, decode(whole[:i]))
	}
}

// TestManyFiles remembers the newest hashes only, and one for each inode.
func TestManyFiles(t *testing.T) {
	known := map[vfs.Stamp]entry{}
	for i := range maxEntries + 10 {
		remember(known, vfs.Stamp{Inode: uint64(i)}, entry{at: int64(i)})
	}
	require.Len(t, known, maxEntries)
	require.NotContains(t, known, vfs.Stamp{Inode: 9})
	require.Contains(t, known, vfs.Stamp{Inode: 10})
	remember(known, vfs.Stamp{Inode: 10, Size: 3}, entry{at: 1 << 40})
	require.NotContains(t, known, vfs.Stamp{Inode: 10})
	require.Len(t, decode(encode(known)), maxEntries)
}

// TestUnusableMemo hashes files although their hashes cannot be remembered.
func TestUnusableMemo(t *testing.T) {
	path, stamp := settledFile(t, "weights")
	want := Sum(sha256.Sum256([]byte("weights")))
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	target := filepath.Join(t.TempDir(), "target")
	require.NoError(t, os.WriteFile(target, []byte("mine"), 0o600))
	linked := t.TempDir()
	require.NoError(t, os.Symlink(target, filepath.Join(linked, memoName)))
	for _, memo := range []*Memo{nil, {}, NewMemo(vfs.OS(), filepath.Join(file, "dir")), NewMemo(vfs.OS(), linked)} {
		forget()
		d, err := memo.Of(t.Context(), vfs.OS(), path, nil)
		require.NoError(t, err)
		require.Equal(t, want, d.Sum)
		memo.add(memoName, stamp, entry{want, 1})
	}
	data, err := os.ReadFile(target)
	require.NoError(t, err)
	require.Equal(t, "mine", string(data), "a symbolic link is replaced, not followed")
	_, err = NewMemo(vfs.OS(), t.TempDir()).Of(t.Context(), vfs.OS(), filepath.Join(file, "no"), nil)
	require.Error(t, err)
}

// TestVerify compares files with remembered hashes: of the same content, of another one with
// the same size and time of modification, and of one that was written anew.
func TestVerify(t *testing.T) {
	forget()
	path, stamp := settledFile(t, "weights")
	memo := NewMemo(vfs.OS(), filepath.Join(t.TempDir(), "cache"))
	d, known, err := memo.Verify(t.Context(), vfs.OS(), path, nil)
	require.NoError(t, err)
	require.False(t, known)
	memo.add(memoName, stamp, entry{d.Sum, 1})
	require.NoError(t, os.Remove(vfs.Join(memo.dir, freshName)))
	forget()

	_, known, err = memo.Verify(t.Context(), vfs.OS(), path, nil)
	require.NoError(t, err)
	require.True(t, known)
	forget()

	require.NoError(t, os.WriteFile(path, []byte("wEights"), 0o600))
	require.NoError(t, os.Chtimes(path, time.Time{}, time.Unix(0, stamp.Modified)))
	again, known, err := memo.Verify(t.Context(), vfs.OS(), path, nil)
	require.ErrorIs(t, err, store.ErrFormat)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, d.Sum.String())
	require.ErrorContains(t, err, again.Sum.String())
	require.True(t, known)
	forget()
	_, known, err = memo.Verify(t.Context(), vfs.OS(), path, nil)
	require.ErrorIs(t, err, store.ErrFormat, "it is still damaged")
	require.True(t, known)
	found, err := memo.Of(t.Context(), vfs.OS(), path, nil)
	require.NoError(t, err)
	require.Equal(t, again.Sum, found.Sum, "a model has the identity of its content")

	require.NoError(t, os.Chtimes(path, time.Time{}, time.Unix(0, stamp.Modified+1e9)))
	_, known, err = memo.Verify(t.Context(), vfs.OS(), path, nil)
	require.NoError(t, err)
	require.False(t, known, "a file that was written anew is not damaged")
	_, _, err = memo.Verify(t.Context(), vfs.OS(), path+"x", nil)
	require.Error(t, err)
}

// TestVerifyKnowsFreshFiles uses a file right after it was written. A later verification knows its
// hash, and calls no file damaged that was written twice within a tick of the clock.
func TestVerifyKnowsFreshFiles(t *testing.T) {
	forget()
	path, stamp := settledFile(t, "weights")
	memo := NewMemo(vfs.OS(), filepath.Join(t.TempDir(), "cache"))
	d, err := memo.Of(t.Context(), vfs.OS(), path, nil)
	require.NoError(t, err)
	for range 2 {
		forget() // another process
		again, known, err := memo.Verify(t.Context(), vfs.OS(), path, nil)
		require.NoError(t, err)
		require.Equal(t, d.Sum, again.Sum)
		require.True(t, known)
	}
	_, known := memo.find(stamp)
	require.False(t, known, "a hash that may be old does not replace reading the file")

	forget()
	require.NoError(t, os.WriteFile(path, []byte("wEights"), 0o600))
	require.NoError(t, os.Chtimes(path, time.Time{}, time.Unix(0, stamp.Modified)))
	_, known, err = memo.Verify(t.Context(), vfs.OS(), path, nil)
	require.NoError(t, err)
	require.False(t, known)
}

var update = flag.Bool("update", false, "write the golden file anew")

// goldenEntries are the entries of the golden memo.
func goldenEntries() map[vfs.Stamp]entry {
	return map[vfs.Stamp]entry{
		{Size: 1, Modified: 2, Changed: 3, Device: 4, Inode: 5}: {sum: Sum{1, 2, 3}, at: 20},
		{Size: 9, Modified: 8, Changed: 7, Device: 6, Inode: 1}: {sum: Sum{31: 7}, at: 10},
	}
}

// TestGolden opens a memo that an earlier program of this version wrote, and writes it again.
func TestGolden(t *testing.T) {
	path := filepath.Join("testdata", "version1.hashes")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, encode(goldenEntries()), 0o644))
	}
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, goldenEntries(), decode(data))
	require.Equal(t, data, encode(goldenEntries()))
	for i := range data {
		data[i] ^= 0x20
		require.Nil(t, decode(data), "the change of byte %d was not detected", i)
		data[i] ^= 0x20
	}
}

// FuzzMemo decodes any bytes: without a panic, and what is accepted is written the same again.
func FuzzMemo(f *testing.F) {
	f.Add(encode(goldenEntries()))
	f.Add(encode(nil))
	f.Add([]byte(memoMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		known := decode(data)
		if again := decode(encode(known)); len(known) > 0 {
			require.Equal(t, known, again)
		}
	})
}
