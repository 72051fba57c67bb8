package segment

import (
	"bufio"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/vfs"
)

func TestSessionReturnsAsItWasSaved(t *testing.T) {
	s := openStore(t, vfs.NewMem(), 0)
	l, err := s.dir.LockSession("talk")
	require.NoError(t, err)
	_, err = l.Load()
	require.ErrorIs(t, err, fs.ErrNotExist)
	m := mustWrite(t, s, randomTokens(1, 103), 16)
	require.NoError(t, l.Save(m))
	again, err := l.Load()
	require.NoError(t, err)
	require.Equal(t, m, again)
	require.Equal(t, 100, again.SavedTokens())
	_, err = s.dir.LockSession("talk")
	require.ErrorIs(t, err, vfs.ErrLocked)
	require.ErrorContains(t, err, "talk")
	_, err = s.dir.RemoveSession("talk")
	require.ErrorIs(t, err, vfs.ErrLocked)
	require.NoError(t, l.Close())
	names, err := s.dir.SessionNames()
	require.NoError(t, err)
	require.Equal(t, []string{"talk"}, names)
	require.Positive(t, s.dir.SessionBytes(m))
}

// TestSaveNamesMissingSegments checks that a session is not saved while one of its
// segments is missing.
func TestSaveNamesMissingSegments(t *testing.T) {
	fsys := vfs.NewMem()
	s := openStore(t, fsys, 0)
	m := mustWrite(t, s, randomTokens(1, 40), 4)
	name := m.names()[1]
	require.NoError(t, fsys.Remove("cache/kv/"+name))
	err := save(s.dir, "x", m)
	require.ErrorIs(t, err, ErrMissing)
	require.ErrorContains(t, err, name)
	require.NoError(t, save(s.dir, "x", mustWrite(t, s, randomTokens(1, 40), 4)))
	require.NoError(t, fsys.Remove("cache/kv/"+name))
	_, err = s.OpenSegments(m)
	require.ErrorIs(t, err, ErrMissing)
	require.ErrorContains(t, err, "tokens 16 to 31")
	_, err = s.dir.VerifySession("x")
	require.ErrorIs(t, err, ErrMissing)
	require.Empty(t, s.dir.open)
}

// TestRemoveKeepsSharedSegments removes one of two sessions with a common prefix.
func TestRemoveKeepsSharedSegments(t *testing.T) {
	fsys := vfs.NewMem()
	s := openStore(t, fsys, 0)
	a := randomTokens(1, 128)
	b := append(append([]int32(nil), a[:64]...), randomTokens(2, 64)...)
	require.NoError(t, save(s.dir, "a", mustWrite(t, s, a, 16)))
	require.NoError(t, save(s.dir, "b", mustWrite(t, s, b, 16)))
	require.Len(t, filesIn(t, fsys, "cache/kv", Suffix), 3)
	freed, err := s.dir.RemoveSession("a")
	require.NoError(t, err)
	require.Positive(t, freed)
	_, err = s.dir.VerifySession("b")
	require.NoError(t, err)
	require.Len(t, filesIn(t, fsys, "cache/kv", Suffix), 2)
	count, _, err := s.dir.Clean()
	require.NoError(t, err)
	require.Zero(t, count)
	_, err = s.dir.RemoveSession("b")
	require.NoError(t, err)
	require.Empty(t, filesIn(t, fsys, "cache/kv", Suffix))
	_, err = s.dir.RemoveSession("b")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// segmentBytes is the size of a segment with 4 pages of the test layout.
const segmentBytes = 4096 + 4096 + 8192

// TestOldestSegmentsAreEvictedFirst fills a directory. Recently used segments,
// segments of a session and open segments must stay.
func TestOldestSegmentsAreEvictedFirst(t *testing.T) {
	fsys := vfs.NewMem()
	s := openStore(t, fsys, 4*segmentBytes)
	sequences := [][]int32{randomTokens(0, 16), randomTokens(1, 16), randomTokens(2, 16), randomTokens(3, 16), randomTokens(4, 16)}
	for i := range 4 {
		m := mustWrite(t, s, sequences[i], 4)
		if i == 0 {
			require.NoError(t, save(s.dir, "pinned", m))
		}
	}
	require.Len(t, filesIn(t, fsys, "cache/kv", Suffix), 4)
	inUse, err := s.Lookup(sequences[1])
	require.NoError(t, err)
	require.Equal(t, 16, found(t, s, sequences[2])) // segment 3 is now the oldest that may be evicted
	mustWrite(t, s, sequences[4], 4)
	for i, want := range []int{16, 16, 16, 0, 16} {
		require.Equal(t, want, found(t, s, sequences[i]), "sequence %d", i)
	}
	require.LessOrEqual(t, len(filesIn(t, fsys, "cache/kv", Suffix)), 4)

	_, err = writeSegment(s, randomTokens(5, 16*9), 16, false) // does not fit even if all others are evicted
	require.ErrorIs(t, err, ErrNoRoom)
	require.ErrorContains(t, err, "the limit is 65536")
	require.Equal(t, 16, found(t, s, sequences[4]), "a failed eviction removes nothing")
	require.NoError(t, Close(inUse))
	count, bytes, err := s.dir.Clean()
	require.NoError(t, err)
	require.Equal(t, 3, count)
	require.EqualValues(t, 3*segmentBytes, bytes)
	require.Equal(t, 16, found(t, s, sequences[0]))
}

// TestParentsOutliveTheirChildren checks that the last segment of a sequence is
// evicted first.
func TestParentsOutliveTheirChildren(t *testing.T) {
	fsys := vfs.NewMem()
	s := openStore(t, fsys, 4*segmentBytes)
	a := randomTokens(1, 64)
	mustWrite(t, s, a, 4)
	require.Equal(t, 64, found(t, s, a))
	mustWrite(t, s, randomTokens(2, 16), 4)
	require.Equal(t, 48, found(t, s, a))
}

// TestOpenRemovesLeftovers checks that OpenDir removes the files of dead writers and
// leaves those of living ones.
func TestOpenRemovesLeftovers(t *testing.T) {
	fsys := vfs.NewMem()
	alive := openStore(t, fsys, 0)
	require.NoError(t, save(alive.dir, "talk", mustWrite(t, alive, randomTokens(1, 16), 16)))
	held, err := alive.dir.LockSession("held")
	require.NoError(t, err)
	defer held.Close()
	for _, name := range []string{
		"kv/00" + vfs.TempMark + "0123456789abcdef-1", "kv/00" + vfs.TempMark + alive.dir.writer + "-1",
		"kv/0123456789abcdef.lock", "kv/notes.txt", "sessions/held.session" + vfs.TempMark + "00", "sessions/gone.session" + vfs.TempMark + "00",
	} {
		require.NoError(t, vfs.WriteFile(fsys, "cache/"+name, []byte("x")))
	}
	openDir(t, fsys, 0)
	require.Equal(t, []string{"00" + vfs.TempMark + alive.dir.writer + "-1"}, filesIn(t, fsys, "cache/kv", vfs.TempMark))
	require.Equal(t, []string{"held.session" + vfs.TempMark + "00"}, filesIn(t, fsys, "cache/sessions", vfs.TempMark))
	require.NotEmpty(t, filesIn(t, fsys, "cache/kv", "notes.txt"))
}

// killHelper is set in the processes that tests start; its value is the directory.
const killHelper = "LLMRUN_TEST_KV_DIR"

// TestKilledWriter kills a process that saves sessions in a loop: after a number of saves, or
// when a temporary file shows that it is in the middle of one.
// Every acknowledged save must be there, leftovers must be removed, and the next save
// must succeed. While the process lives, its session is locked.
func TestKilledWriter(t *testing.T) {
	if base := os.Getenv(killHelper); base != "" {
		saveForEver(base)
	}
	sawTemporary := false
	for k := range 8 {
		base := t.TempDir()
		child := exec.Command(os.Args[0], "-test.run=^TestKilledWriter$")
		child.Env = append(os.Environ(), killHelper+"="+base)
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		lines := bufio.NewReader(out)
		_, err = lines.ReadString('\n')
		require.NoError(t, err)
		d, err := OpenDir(vfs.OS(), base, 0)
		require.NoError(t, err)
		_, err = d.LockSession("talk")
		require.ErrorIs(t, err, vfs.ErrLocked)
		saved := 1 // the first line acknowledged one
		for ; saved <= k; saved++ {
			_, err = lines.ReadString('\n')
			require.NoError(t, err)
		}
		if k%2 == 1 {
			testutil.Eventually(t, "a temporary file", func() bool { return hasTemporary(t, base) })
		}
		require.NoError(t, child.Process.Kill())
		for {
			if _, err := lines.ReadString('\n'); err != nil {
				break
			}
			saved++
		}
		_ = child.Wait()

		sawTemporary = sawTemporary || hasTemporary(t, base)
		d, err = OpenDir(vfs.OS(), base, 0)
		require.NoError(t, err)
		require.Empty(t, filesIn(t, vfs.OS(), base+"/kv", vfs.TempMark))
		require.Empty(t, filesIn(t, vfs.OS(), base+"/sessions", vfs.TempMark))
		m, err := d.Session("talk")
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(m.Tokens), saved*8, "acknowledged saves are there")
		_, err = d.VerifySession("talk")
		require.NoError(t, err)
		s, err := d.Store(testKey, testLayout)
		require.NoError(t, err)
		d.spare = 0
		require.NoError(t, save(d, "talk", mustWrite(t, s, randomTokens(9, 30), 3)))
		require.NoError(t, d.Close())
	}
	t.Logf("a temporary file was there to remove: %v", sawTemporary)
}

func hasTemporary(t *testing.T, base string) bool {
	return len(filesIn(t, vfs.OS(), base+"/kv", vfs.TempMark))+len(filesIn(t, vfs.OS(), base+"/sessions", vfs.TempMark)) > 0
}

// saveForEver saves a sequence that grows by two pages and prints a line after each
// save.
func saveForEver(base string) {
	d, err := OpenDir(vfs.OS(), base, 0)
	if err != nil {
		os.Exit(1)
	}
	d.spare = 0
	s, err := d.Store(testKey, testLayout)
	if err != nil {
		os.Exit(1)
	}
	l, err := d.LockSession("talk")
	if err != nil {
		os.Exit(1)
	}
	all := randomTokens(1, 100_000)
	for n := 8; n < len(all); n += 8 {
		m, err := writeSegment(s, all[:n], 2, true)
		if err == nil {
			err = l.Save(m)
		}
		if err != nil {
			os.Stdout.WriteString(err.Error())
			os.Exit(1)
		}
		os.Stdout.WriteString("saved\n")
	}
	os.Exit(1)
}

// TestTwoWriters writes common and different sequences from two stores, like two
// processes, into a directory that is too small for all of them.
func TestTwoWriters(t *testing.T) {
	fsys := vfs.Sub(vfs.OS(), t.TempDir())
	done := make(chan error, 2)
	for w := range 2 {
		d, err := OpenDir(fsys, "cache", 12*segmentBytes)
		require.NoError(t, err)
		d.spare = 0
		go func() {
			s, err := d.Store(testKey, testLayout)
			for i := 0; err == nil && i < 60; i++ {
				_, err = writeSegment(s, randomTokens(uint64(i%7+w*3), 32), 4, i%2 == 0)
			}
			if err == nil {
				err = d.Close()
			}
			done <- err
		}()
	}
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	s := openStore(t, fsys, 0)
	list, err := s.dir.List()
	require.NoError(t, err)
	require.NotEmpty(t, list)
	for _, c := range list {
		f, err := s.acquire(c.Name)
		require.NoError(t, err)
		require.NoError(t, f.VerifyAll())
		require.NoError(t, f.Close())
	}
	require.Empty(t, filesIn(t, fsys, "cache/kv", vfs.TempMark))
	require.Empty(t, filesIn(t, fsys, "cache/kv", lockSuffix))
}

// TestSessionsTooLargeToLoadAreRefused saves a session, and then one whose messages exceed the limit: the first stays.
func TestSessionsTooLargeToLoadAreRefused(t *testing.T) {
	dir, err := OpenDir(vfs.NewMem(), "saved", 0)
	require.NoError(t, err)
	l, err := dir.LockSession("big")
	require.NoError(t, err)
	m := &Manifest{PageTokens: 64, Tokens: []int32{1}}
	require.NoError(t, l.Save(m))
	large := *m
	large.Messages = []Message{{"user", strings.Repeat("x", maxManifest)}}
	require.ErrorContains(t, l.Save(&large), "at most")
	got, err := l.Load()
	require.NoError(t, err)
	require.Empty(t, got.Messages)
	require.NoError(t, l.Close())
}
