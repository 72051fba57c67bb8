package llmrun_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/kv/segment"
	"github.com/llmrun/llmrun/store/digest"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/store/vfs"
)

// sampledModel writes a model that is larger than the samples that older programs hashed.
func sampledModel(t *testing.T) string {
	t.Helper()
	shape, ok := synth.FindShape("tiny")
	require.True(t, ok)
	shape.Layers, shape.Dim, shape.FFN, shape.Vocab, shape.Tied = 2, 256, 1024, 2048, false
	return writeShape(t, shape, "q8_0")
}

// flipUnsampled flips a random bit of a file outside those samples. It keeps size and time.
func flipUnsampled(t *testing.T, r *rand.Rand, path string) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer file.Close()
	const head, tail, samples, sample = 1 << 20, 64 << 10, 32, 4096
	between := info.Size() - head - tail
	off := r.Int64N(between)
	for off%(between/samples) < sample {
		off = r.Int64N(between)
	}
	one := make([]byte, 1)
	_, err = file.ReadAt(one, head+off)
	require.NoError(t, err)
	one[0] ^= 1 << r.IntN(8)
	_, err = file.WriteAt(one, head+off)
	require.NoError(t, err)
	require.NoError(t, os.Chtimes(path, time.Time{}, info.ModTime()))
}

// TestEveryFlippedBitIsAnotherModel flips bits of a file whose hash is remembered, one after another: 1000
// with LLMRUN_TEST_SWEEP. No flip keeps the fingerprint, although samples of the file, its size and its
// time stay the same.
func TestEveryFlippedBitIsAnotherModel(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	path, dir := filepath.Join(t.TempDir(), "m.gguf"), t.TempDir()
	data := make([]byte, 2<<20)
	for i := 0; i < len(data); i += 8 {
		binary.LittleEndian.PutUint64(data[i:], r.Uint64())
	}
	require.NoError(t, os.WriteFile(path, data, 0o600))
	sampled, err := pack.SampledFingerprint(vfs.OS(), []string{path})
	require.NoError(t, err)
	fingerprint := func() pack.Fingerprint {
		f := &modelfile.Files{Path: path, FS: vfs.OS(), Hashes: digest.NewMemo(vfs.OS(), dir)}
		c, err := f.Content(t.Context())
		require.NoError(t, err)
		return c.Fingerprint
	}
	first := fingerprint()
	seen := map[pack.Fingerprint]bool{first: true}
	testutil.Eventually(t, "the file is old enough for its hash to be remembered", func() bool {
		require.Equal(t, first, fingerprint())
		_, err := os.Stat(filepath.Join(dir, "hashes"))
		return err == nil
	})
	flips := testutil.Effort(100, 1000)
	for range flips {
		flipUnsampled(t, r, path)
		seen[fingerprint()] = true
	}
	require.Len(t, seen, flips+1)
	same, err := pack.SampledFingerprint(vfs.OS(), []string{path})
	require.NoError(t, err)
	require.Equal(t, sampled, same, "samples reveal none of the flips")
}

// TestFlippedBitsAnswerAnew flips bits of a model in place, one after another: 1000 with LLMRUN_TEST_SWEEP. The name,
// the size, the time and the samples stay the same. Each answer is that of the new content, and not from the
// pack or the saved keys and values of the previous one.
func TestFlippedBitsAnswerAnew(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	path := sampledModel(t)
	cached := llmrun.Options{Threads: 1, Cache: llmrun.CacheOptions{Dir: t.TempDir(), Size: 64 << 20}}
	prompt := document(600)
	type given struct {
		ids    []int32
		logits [][]float32
	}
	answer := func(o llmrun.Options) (a given, restored int) {
		e := open(t, path, o)
		s := newSession(t, e)
		a.ids = ids(t, s, prompt, 1)
		var err error
		a.logits, err = e.Logits(context.Background(), prompt[:8], []int{7})
		require.NoError(t, err)
		require.NoError(t, e.Close())
		return a, s.Stats().RestoredTokens
	}
	_, restored := answer(cached)
	require.Zero(t, restored)
	flips := testutil.Effort(16, 1000)
	for i := range flips {
		if i < 8 {
			_, restored = answer(cached)
			require.Positive(t, restored, "the previous content is in the cache")
		}
		flipUnsampled(t, r, path)
		want, _ := answer(llmrun.Options{Threads: 1})
		got, restored := answer(cached)
		require.Equal(t, want, got, "flip %d", i)
		require.Zero(t, restored, "flip %d: the keys and values of another model", i)
	}
	t.Logf("%d of %d flips led to the answer of the new content", flips, flips)
}

// TestRenamedModelKeepsItsPackAndSessions renames and touches a model, copies it, and gives its
// pack the name of another version of the tile order, which this program does not look for.
// Nothing of that changes the content.
func TestRenamedModelKeepsItsPackAndSessions(t *testing.T) {
	path, dir := sampledModel(t), t.TempDir()
	imports := 0
	o := llmrun.Options{Threads: 1, Notify: func(text string) { t.Error(text) }, Cache: llmrun.CacheOptions{Dir: dir, ImportProgress: func(p llmrun.Progress) {
		if p.Done == p.Total {
			imports++
		}
	}}}
	held := 0
	continueSession := func(wantImports int) {
		t.Helper()
		imports = 0
		e := open(t, path, o)
		s := openSession(t, e, "a", llmrun.SessionOptions{})
		require.Equal(t, held, s.Len())
		ids(t, s, document(100)[:70], 4)
		require.Equal(t, held > 0, s.Stats().RestoredTokens > 0)
		require.NoError(t, s.Save(""))
		held = s.Len()
		require.NoError(t, e.Close())
		require.Equal(t, wantImports, imports)
	}
	continueSession(1)
	moved := filepath.Join(t.TempDir(), "other name.gguf")
	require.NoError(t, os.Rename(path, moved))
	path = moved
	continueSession(0)
	require.NoError(t, os.Chtimes(path, time.Time{}, time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)))
	continueSession(0)
	data, err := os.ReadFile(path) // another inode
	require.NoError(t, err)
	path = filepath.Join(t.TempDir(), "copy.gguf")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	continueSession(0)
	packs, err := llmrun.CachedPacks(dir)
	require.NoError(t, err)
	require.Len(t, packs, 1)
	name := filepath.Join(dir, packs[0].Name)
	require.NoError(t, os.Rename(name, strings.TrimSuffix(name, "-1.pack")+"-0.pack"))
	continueSession(1)
}

// TestSessionsOfOlderPrograms gives a session the identities that older programs stored: its
// text continues, and its keys and values are computed again.
func TestSessionsOfOlderPrograms(t *testing.T) {
	path, dir := sampledModel(t), t.TempDir()
	o := llmrun.Options{Threads: 1, Cache: llmrun.CacheOptions{Dir: dir, NoKV: true}}
	e := open(t, path, o)
	s := openSession(t, e, "a", llmrun.SessionOptions{})
	first := ids(t, s, document(100), 4)
	require.NoError(t, s.Save(""))
	require.NoError(t, e.Close())
	want := ids(t, func() *llmrun.Session {
		s := newSession(t, open(t, path, llmrun.Options{Threads: 1}))
		require.Equal(t, first, ids(t, s, document(100), 4))
		return s
	}(), document(10), 4)

	d, err := segment.OpenDir(vfs.OS(), dir, 0)
	require.NoError(t, err)
	lock, err := d.LockSession("a")
	require.NoError(t, err)
	m, err := lock.Load()
	require.NoError(t, err)
	sampled, err := pack.SampledFingerprint(vfs.OS(), []string{path})
	require.NoError(t, err)
	copy(m.Identity[:], sampled[:])
	require.NoError(t, lock.Save(m))
	require.NoError(t, lock.Close())
	require.NoError(t, d.Close())

	e = open(t, path, o)
	notice := ""
	s = openSession(t, e, "a", llmrun.SessionOptions{Notify: func(text string) { notice = text }})
	require.Contains(t, notice, "older llmrun")
	require.Equal(t, 104, s.Len())
	require.Equal(t, want, ids(t, s, document(10), 4))
	require.Zero(t, s.Stats().RestoredTokens)
	require.NoError(t, s.Save(""))
	require.NoError(t, e.Close())
	e = open(t, path, o)
	s = openSession(t, e, "a", llmrun.SessionOptions{Notify: func(text string) { t.Error(text) }})
	ids(t, s, document(10), 1)
	require.Positive(t, s.Stats().RestoredTokens, "it was saved under the new identity")
}

// TestModelReplacedWhileOpen copies another model over the file of an open engine, in place and as
// a new file. The engine keeps its weights, and what it saves is not used for the new content.
func TestModelReplacedWhileOpen(t *testing.T) {
	for name, replace := range map[string]func(path string, data []byte) error{
		"in place": func(path string, data []byte) error {
			file, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err == nil {
				_, err = file.WriteAt(data, 0)
				err = errors.Join(err, file.Close())
			}
			return err
		},
		"new file": func(path string, data []byte) error {
			return errors.Join(os.WriteFile(path+".part", data, 0o600), os.Rename(path+".part", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, dir := sampledModel(t), t.TempDir()
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			data[len(data)-200_000] ^= 4
			o := llmrun.Options{Threads: 1, Cache: llmrun.CacheOptions{Dir: dir}}
			e := open(t, path, o)
			s := openSession(t, e, "book", llmrun.SessionOptions{})
			want := ids(t, s, document(600), 4)
			require.NoError(t, replace(path, data))
			fresh := newSession(t, e)
			require.Equal(t, want, ids(t, fresh, document(600), 4), "the weights of an open engine stay the same")
			saved := s.Save("")
			require.NoError(t, s.Close())
			require.NoError(t, e.Close())

			now := open(t, path, llmrun.Options{Threads: 1})
			cached := open(t, path, o)
			answer := newSession(t, cached)
			require.Equal(t, ids(t, newSession(t, now), document(600), 4), ids(t, answer, document(600), 4))
			require.Zero(t, answer.Stats().RestoredTokens, "saving returned %v", saved)
		})
	}
}
