package vfs

import (
	"bytes"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// testKey returns a key for tests.
func testKey(seed uint64) (key [SealKeyBytes]byte) {
	random := rand.NewChaCha8([32]byte{byte(seed)})
	_, _ = random.Read(key[:])
	return key
}

// contents returns all files of a Mem by name.
func diskFiles(m *Mem) map[string][]byte {
	all := map[string][]byte{}
	for name, node := range m.live {
		if !node.dir {
			all[name] = bytes.Clone(node.data)
		}
	}
	return all
}

// only returns the one file of a Mem.
func only(t *testing.T, m *Mem) (name string, data []byte) {
	all := diskFiles(m)
	require.Len(t, all, 1)
	for name, data = range all {
	}
	return name, data
}

// text returns bytes that are easy to find.
func text(n int) []byte {
	return bytes.Repeat([]byte("a secret of the user; "), n/22+1)[:n]
}

// TestSealedHides writes files and looks for their text and names on the disk.
func TestSealedHides(t *testing.T) {
	m := NewMem()
	s := Sealed(m, testKey(1))
	require.NoError(t, s.MkdirAll("kv"))
	require.NoError(t, WriteFile(s, "kv/secret-name.kv", text(20000)))
	lock, err := Lock(Sealed(lockable(t), testKey(1)), "secret.lock")
	require.NoError(t, err)
	require.NoError(t, lock.Close())
	path, data := only(t, m)
	require.NotContains(t, string(data), "secret")
	require.NotContains(t, path, "secret")
	require.True(t, strings.HasPrefix(path, "kv/") && IsSealedName(path))
	for i := range 4 { // equal blocks differ on the disk
		for j := range i {
			require.NotEqual(t, data[sealStart+i*sealBlock:][:64], data[sealStart+j*sealBlock:][:64])
		}
	}

	list, err := s.ReadDir("kv")
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "secret-name.kv", list[0].Name)
	got, err := ReadFile(s, "kv/secret-name.kv", 1<<20)
	require.NoError(t, err)
	require.Equal(t, text(20000), got)
}

// lockable returns a file system with locks.
func lockable(t *testing.T) FS { return Sub(OS(), t.TempDir()) }

// TestSealedOtherKey looks at files of another key and of no key: they are not listed, do not
// open, and stay.
func TestSealedOtherKey(t *testing.T) {
	m := NewMem()
	a, b := Sealed(m, testKey(1)), Sealed(m, testKey(2))
	require.NoError(t, WriteFile(m, "plain.kv", text(10)))
	require.NoError(t, WriteFile(a, "x.kv", text(10)))
	before := diskFiles(m)
	list, err := b.ReadDir(".")
	require.NoError(t, err)
	require.Empty(t, list)
	for _, name := range []string{"plain.kv", "x.kv"} {
		_, err = b.Open(name)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.ErrorIs(t, b.Remove(name), fs.ErrNotExist)
	}
	for fsys, want := range map[FS]int{a: 1, b: 2, m: 1} {
		n, err := Foreign(fsys, ".")
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	require.Equal(t, before, diskFiles(m))
	n, err := Foreign(a, "nothing")
	require.NoError(t, err)
	require.Zero(t, n)

	// A file of another key under the right name is refused.
	var sealed string
	for name := range before {
		if IsSealedName(name) {
			sealed = name
		}
	}
	require.NoError(t, WriteFile(m, b.(*sealedFS).path("x.kv"), before[sealed]))
	_, err = b.Open("x.kv")
	require.ErrorIs(t, err, ErrSeal)
	require.ErrorContains(t, err, "another key")
}

// TestSealedNames seals and opens names up to the longest of a session's temporary file.
func TestSealedNames(t *testing.T) {
	a, b := newNameCipher(testKey(1)), newNameCipher(testKey(2))
	seen := map[string]bool{}
	for n := 1; n <= 130; n++ {
		name := strings.Repeat("n", n)
		sealed := a.seal(name)
		require.Equal(t, sealed, a.seal(name))
		require.False(t, seen[sealed])
		seen[sealed] = true
		require.LessOrEqual(t, len(sealed), 255)
		plain, ok := a.open(sealed)
		require.True(t, ok)
		require.Equal(t, name, plain)
		_, ok = b.open(sealed)
		require.False(t, ok)
		_, ok = a.open("b" + sealed[1:])
		require.False(t, ok && sealed[0] != 'b')
	}
	for _, name := range []string{"", "x", sealSuffix, "abc" + sealSuffix, "!" + sealSuffix} {
		_, ok := a.open(name)
		require.False(t, ok, name)
	}
}

// TestSealedContract checks the promises of FS and File that hold for sealed files.
func TestSealedContract(t *testing.T) {
	s := Sealed(NewMem(), testKey(1))
	require.NoError(t, s.MkdirAll("a/b"))
	f, err := s.Create("a/b/f")
	require.NoError(t, err)
	n, err := f.WriteAt([]byte("hello"), 3)
	require.NoError(t, err)
	require.Equal(t, 5, n)
	require.NoError(t, f.Truncate(6))
	require.NoError(t, f.Close())
	data, err := ReadFile(s, "a/b/f", 6)
	require.NoError(t, err)
	require.Equal(t, "\x00\x00\x00hel", string(data))
	checkReads(t, s, sealStart)

	require.NoError(t, WriteFile(s, "a/g", []byte("new")))
	require.NoError(t, s.Rename("a/g", "a/b/f"))
	_, err = s.Stat("a/g")
	requireIOError(t, err, fs.ErrNotExist, "stat", -1)
	info, err := s.Stat("a/b/f")
	require.NoError(t, err)
	require.Equal(t, Info{Name: "f", Size: sealStart + sealBlock + sealEntry}, info)
	_, err = s.Open("a/none")
	requireIOError(t, err, fs.ErrNotExist, "open", -1)
	require.Error(t, s.Remove("a/b"), "Remove rejects a directory with files")
	require.NoError(t, s.Remove("a/b/f"))
	require.NoError(t, s.Remove("a/b"))
	requireIOError(t, s.Remove("a/b"), fs.ErrNotExist, "remove", -1)
}

// TestSealedWrappers checks that the optional features of the file system below are available.
func TestSealedWrappers(t *testing.T) {
	s := Sealed(OS(), testKey(1))
	dir := t.TempDir()
	name := Join(dir, "f")
	require.NoError(t, WriteFile(s, name, text(3*sealBlock)))
	f, err := OpenDirect(s, name)
	require.NoError(t, err)
	p := make([]byte, 3*sealBlock+1)
	n, err := f.ReadAt(p, 0)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, text(3*sealBlock), p[:n])
	encrypted, _ := AsEncrypted(f)
	stored, at := encrypted.(*sealedFile).file, int64(sealStart)
	_, err = stored.ReadAt(p[:3*sealBlock], at)
	require.NoError(t, err)
	require.NoError(t, encrypted.Check(p[:3*sealBlock], 0))
	require.Equal(t, text(3*sealBlock), p[:n])
	require.EqualValues(t, tableChunk*sealEntry, s.(*sealedFS).tables.used)
	require.NoError(t, f.Close())
	before, ok := LastUsed(s, name)
	require.True(t, ok)
	require.NoError(t, Touch(s, name))
	after, _ := LastUsed(s, name)
	require.WithinRange(t, after, before, before.Add(time.Hour))
	_, ok = FreeSpace(s, dir)
	require.True(t, ok)
	lock, err := Lock(s, name+".lock")
	require.NoError(t, err)
	_, err = Lock(s, name+".lock")
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, lock.Close())
	info, err := s.Stat(dir)
	require.NoError(t, err)
	require.True(t, info.IsDir)
	require.NoError(t, s.MkdirAll(Join(dir, "sub")))
	list, err := s.ReadDir(dir)
	require.NoError(t, err)
	require.Equal(t, []string{"f", "sub"}, []string{list[0].Name, list[1].Name})
	require.NoError(t, s.Remove(Join(dir, "sub")))
	got, err := ReadFile(Confine(s, dir), "f", 1<<20)
	require.NoError(t, err)
	require.Equal(t, text(3*sealBlock), got)
}

// TestSealedReadsAllocateNothing reads with a warm pool of buffers.
func TestSealedReadsAllocateNothing(t *testing.T) {
	s := Sealed(OS(), testKey(1))
	name := Join(t.TempDir(), "f")
	require.NoError(t, WriteFile(s, name, text(70*sealBlock)))
	f, err := s.Open(name)
	require.NoError(t, err)
	defer f.Close()
	p := make([]byte, 66*sealBlock)
	require.Zero(t, testutil.AllocsPerRun(10, 0, func() {
		_, err := f.ReadAt(p, sealBlock)
		require.NoError(t, err)
	}))
	require.Equal(t, text(70 * sealBlock)[sealBlock:][:len(p)], p)
}

// FuzzSealedFile compares a sealed file with a file in memory under random operations.
func FuzzSealedFile(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 7))
		m := NewMem()
		s := Sealed(m, testKey(seed))
		file, err := s.Create("f")
		require.NoError(t, err)
		var want []byte
		for range 60 {
			off, n := random.IntN(len(want)+1), random.IntN(sealBlock*3)
			switch random.IntN(6) {
			case 0: // extends only by what is written
				require.NoError(t, file.Truncate(int64(off)))
				want = want[:off]
			case 1:
				require.NoError(t, file.Sync())
			case 2, 3:
				p := make([]byte, n)
				for i := range p {
					p[i] = byte(random.Uint32())
				}
				if random.IntN(2) == 0 {
					off = off / sealBlock * sealBlock
				}
				k, err := file.WriteAt(p, int64(off))
				require.NoError(t, err)
				require.Equal(t, n, k)
				want = slices.Concat(want[:off], p, want[min(len(want), off+n):])
			default:
				checkRange(t, file, want, off, n)
			}
			size, err := file.Size()
			require.NoError(t, err)
			require.EqualValues(t, len(want), size)
		}
		require.NoError(t, file.Close())
		got, err := ReadFile(s, "f", 1<<20)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got))
		for _, data := range diskFiles(m) {
			require.Len(t, data, sealStart+int(blocksOf(int64(len(want)))*(sealBlock+sealEntry)))
		}
	})
}

// checkRange compares a range of a file with what it should hold.
func checkRange(t *testing.T, f File, want []byte, off, n int) {
	p := make([]byte, n)
	k, err := f.ReadAt(p, int64(off))
	if end := min(len(want), off+n); end-off < n {
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, end-off, k)
	} else {
		require.NoError(t, err)
		require.Equal(t, n, k)
	}
	require.True(t, bytes.Equal(want[off:off+k], p[:k]))
}

// BenchmarkSealed reads and writes a file of 16 MiB in the page cache.
func BenchmarkSealed(b *testing.B) {
	p := make([]byte, 1<<20)
	for name, fsys := range map[string]FS{"plain": OS(), "sealed": Sealed(OS(), testKey(1))} {
		path := Join(b.TempDir(), name)
		f, err := fsys.Create(path)
		require.NoError(b, err)
		b.Run(name+"/write", func(b *testing.B) {
			b.SetBytes(int64(len(p)))
			for i := range b.N {
				_, err := f.WriteAt(p, int64(i%16)<<20)
				require.NoError(b, err)
			}
		})
		b.Run(name+"/read", func(b *testing.B) {
			b.SetBytes(int64(len(p)))
			for i := range b.N {
				_, err := f.ReadAt(p, int64(i%16)<<20)
				require.NoError(b, err)
			}
		})
		require.NoError(b, f.Close())
	}
}

// TestSealedDamage changes bytes of a sealed file, cuts and extends it, and exchanges blocks: each
// change is refused, and reads of blocks that are intact succeed.
func TestSealedDamage(t *testing.T) {
	m := NewMem()
	s := Sealed(m, testKey(1))
	content := text(2*sealBlock + 100)
	require.NoError(t, WriteFile(s, "f", content))
	path, good := only(t, m)
	refused := func(data []byte, about string, args ...any) {
		t.Helper()
		require.NoError(t, WriteFile(m, path, data))
		got, err := ReadFile(s, "f", 1<<20)
		require.ErrorIs(t, err, ErrSeal, append([]any{about}, args...)...)
		require.NotEqual(t, content, got)
		require.ErrorContains(t, err, path)
	}
	table := sealStart + 3*sealBlock
	for i := range good {
		if i > sealHeader && i < table && i%61 != 0 {
			continue // a sample of zeros and ciphertexts
		}
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		refused(bad, "byte %d", i)
	}
	for _, n := range []int{0, 1, sealHeader - 1, sealHeader, sealStart, sealStart + sealBlock, table, len(good) - sealEntry, len(good) - 1} {
		refused(good[:n], "cut to %d", n)
	}
	refused(append(bytes.Clone(good), 0), "longer")
	block := func(b []byte, i int) []byte { return b[sealStart+i*sealBlock:][:sealBlock] }
	entry := func(b []byte, i int) []byte { return b[table+i*sealEntry:][:sealEntry] }
	swapped := bytes.Clone(good)
	for _, part := range []func([]byte, int) []byte{block, entry} {
		copy(part(swapped, 0), part(good, 1))
		copy(part(swapped, 1), part(good, 0))
	}
	refused(swapped, "exchanged blocks")
	empty := bytes.Clone(good)
	clear(block(empty, 1))
	clear(entry(empty, 1))
	refused(empty, "a block of zeros")

	f, err := s.Open("f")
	require.NoError(t, err)
	p := make([]byte, sealBlock)
	_, err = f.ReadAt(p, 0)
	require.NoError(t, err)
	require.Equal(t, content[:sealBlock], p)
	_, err = f.ReadAt(p, sealBlock)
	require.ErrorIs(t, err, ErrSeal)
	require.NoError(t, f.Close())
}

// TestSealedNotClosed opens a file whose writer was killed before Sync or Close, and one that
// has blocks that were never written.
func TestSealedNotClosed(t *testing.T) {
	m := NewMem()
	s := Sealed(m, testKey(1))
	f, err := s.Create("f")
	require.NoError(t, err)
	require.NoError(t, Allocate(f, 3*sealBlock))
	_, err = f.WriteAt(text(sealBlock), 0)
	require.NoError(t, err)
	_, err = s.Open("f")
	require.ErrorIs(t, err, ErrSeal)
	require.NoError(t, f.Sync())
	r, err := s.Open("f")
	require.NoError(t, err)
	p := make([]byte, sealBlock)
	_, err = r.ReadAt(p, 0)
	require.NoError(t, err)
	_, err = r.ReadAt(p, sealBlock)
	require.ErrorIs(t, err, ErrSeal)
	_, err = r.WriteAt(p, 0)
	require.ErrorIs(t, err, ErrReadOnly)
	require.ErrorIs(t, r.Truncate(0), ErrReadOnly)
	require.NoError(t, r.Close())
	require.NoError(t, f.Close())
}
