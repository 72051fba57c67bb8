package llmrun_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// document returns a prompt of n token ids.
func document(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(20 + (i*7919+i*i*31)%1000)
	}
	return ids
}

// drawn returns options that sample n tokens with a fixed seed.
func drawn(n int) llmrun.GenerateOptions {
	return llmrun.GenerateOptions{MaxTokens: n, IgnoreEOS: true, Sampling: llmrun.Sampling{Temperature: 1, Seed: seed(11)}}
}

func ids(t testing.TB, s *llmrun.Session, prompt []int32, n int) []int32 {
	t.Helper()
	got := complete(t, s.GenerateIDs(context.Background(), prompt, drawn(n))).IDs
	require.NoError(t, s.Flush())
	return got
}

func kvFiles(t testing.TB, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "kv", "*.kv"))
	require.NoError(t, err)
	return files
}

// TestPrefixCacheHit checks that an engine restores the prefix of a prompt that another
// engine has prefilled, also if the prompts differ later, with the same answer.
func TestPrefixCacheHit(t *testing.T) {
	model := longTextModel(t)
	for _, kv := range []string{"f32", "k8v8"} {
		t.Run(kv, func(t *testing.T) {
			dir := t.TempDir()
			doc := document(700)
			first := slices.Concat(doc, []int32{30, 31, 32})
			second := slices.Concat(doc, []int32{40, 41})
			alone := open(t, model, llmrun.Options{Memory: llmrun.MemoryOptions{KV: kv}})
			wantFirst, wantSecond := ids(t, newSession(t, alone), first, 8), ids(t, newSession(t, alone), second, 8)

			o := llmrun.Options{Notify: func(text string) { t.Error(text) }, Memory: llmrun.MemoryOptions{KV: kv}, Cache: llmrun.CacheOptions{KVDir: dir}}
			e := open(t, model, o)
			s := newSession(t, e)
			require.Equal(t, wantFirst, ids(t, s, first, 8))
			require.Zero(t, s.Stats().RestoredTokens)
			require.Positive(t, s.Stats().SavedBytes)
			files := kvFiles(t, dir)
			require.Len(t, files, 1, "ten full pages")

			e = open(t, model, o) // stands for another process
			s = newSession(t, e)
			require.Equal(t, wantSecond, ids(t, s, second, 8))
			require.Equal(t, 640, s.Stats().RestoredTokens)
			require.Equal(t, 640, s.Stats().ReusedTokens)
			require.Zero(t, s.Stats().SavedBytes, "it is already saved")
			beside := newSession(t, e)
			require.Equal(t, wantFirst[:2], ids(t, beside, first[:703], 2))
			require.Equal(t, 640, beside.Stats().ReusedTokens)
			require.Zero(t, beside.Stats().RestoredTokens, "the other session has them in memory")
			require.NoError(t, beside.Close())
			require.NoError(t, s.Close())
			s = newSession(t, e)
			require.Equal(t, wantFirst[:2], ids(t, s, first[:703], 2))
			require.Equal(t, 640, s.Stats().RestoredTokens)
			ids(t, newSession(t, e), document(200), 1)
			require.Equal(t, files, kvFiles(t, dir), "short prompts are not saved")

			o.Cache.NoKV = true
			s = newSession(t, open(t, model, o))
			require.Equal(t, wantSecond, ids(t, s, second, 8))
			require.Zero(t, s.Stats().RestoredTokens)
		})
	}
}

// TestDamagedPrefixIsRePrefilled changes a byte of a segment. The answer does not change, the
// engine reports the damage, and the file is replaced.
func TestDamagedPrefixIsRePrefilled(t *testing.T) {
	model := longTextModel(t)
	dir := t.TempDir()
	var notices []string
	o := llmrun.Options{Notify: func(text string) { notices = append(notices, text) }, Cache: llmrun.CacheOptions{KVDir: dir}}
	prompt := document(600)
	want := ids(t, newSession(t, open(t, model, o)), prompt, 4)
	file := kvFiles(t, dir)[0]
	damage(t, file, 100_000)
	s := newSession(t, open(t, model, o))
	require.Equal(t, want, ids(t, s, prompt, 4))
	require.Zero(t, s.Stats().RestoredTokens)
	require.Len(t, notices, 1)
	require.Contains(t, notices[0], file+" at offset")
	s = newSession(t, open(t, model, o))
	require.Equal(t, want, ids(t, s, prompt, 4))
	require.Equal(t, 576, s.Stats().RestoredTokens, "the segment was replaced")
}

func damage(t testing.TB, file string, at int) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	data[at%len(data)] ^= 4
	require.NoError(t, os.WriteFile(file, data, 0o600))
}

func openSession(t testing.TB, e *llmrun.Engine, name string, o llmrun.SessionOptions) *llmrun.Session {
	t.Helper()
	s, err := e.OpenSession(name, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// TestSessionContinuesInAnotherProcess saves and reopens a session after each step. The
// answers are those of an uninterrupted session.
func TestSessionContinuesInAnotherProcess(t *testing.T) {
	model := longTextModel(t)
	dir := t.TempDir()
	o := llmrun.Options{Cache: llmrun.CacheOptions{KVDir: dir}, Memory: llmrun.MemoryOptions{KV: "k8v8"}}
	steps := [][]int32{document(300), document(90), {25}, document(200)}
	var want [][]int32
	s := newSession(t, open(t, model, llmrun.Options{Memory: llmrun.MemoryOptions{KV: "k8v8"}}))
	for _, step := range steps {
		want = append(want, ids(t, s, step, 10))
	}
	held := 0
	for i, step := range steps {
		e := open(t, model, o)
		s := openSession(t, e, "book", llmrun.SessionOptions{})
		require.Equal(t, held, s.Len())
		require.Equal(t, want[i], ids(t, s, step, 10))
		require.GreaterOrEqual(t, s.Stats().ReusedTokens, held/64*64-1)
		require.Equal(t, s.Stats().ReusedTokens, s.Stats().RestoredTokens)
		require.NoError(t, s.Save(""))
		held = s.Len()
		_, err := e.OpenSession("book", llmrun.SessionOptions{})
		require.ErrorIs(t, err, llmrun.ErrLocked)
		_, err = open(t, model, o).OpenSession("book", llmrun.SessionOptions{})
		require.ErrorIs(t, err, llmrun.ErrLocked)
		require.NoError(t, e.Close())
	}
	list, err := llmrun.Sessions(dir)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, held, list[0].Tokens)
	require.Equal(t, model, list[0].Model)
	_, err = llmrun.VerifySession(dir, "book")
	require.NoError(t, err)
	shown, err := llmrun.ShowSession(dir, "book")
	require.NoError(t, err)
	require.Len(t, shown.IDs, held)
	saved, err := llmrun.CachedKV(dir)
	require.NoError(t, err)
	require.Equal(t, saved.Bytes, saved.SessionBytes)
	require.Positive(t, saved.Bytes)
	clean, err := llmrun.CleanCachedKV(dir)
	require.NoError(t, err)
	require.Zero(t, clean.Files, "the session uses all files")
	freed, err := llmrun.RemoveSession(dir, "book")
	require.NoError(t, err)
	require.Equal(t, saved.Bytes, freed)
	require.Empty(t, kvFiles(t, dir))
}

// TestSavedConversationContinues saves the messages of a chat.
func TestSavedConversationContinues(t *testing.T) {
	o := llmrun.Options{Cache: llmrun.CacheOptions{KVDir: t.TempDir()}}
	ask := func(s *llmrun.Session, text string) string {
		return complete(t, s.Chat(context.Background(), text, llmrun.GenerateOptions{MaxTokens: 20})).Text
	}
	whole := newSession(t, demo(t))
	first, second := ask(whole, "Tell me a story about a brave fox named Ruby."), ask(whole, "What is 3 + 4?")
	e := open(t, demoModel, o)
	s := newSession(t, e)
	require.Equal(t, first, ask(s, "Tell me a story about a brave fox named Ruby."))
	require.NoError(t, s.Save("talk"))
	require.ErrorIs(t, newSession(t, e).Save("talk"), llmrun.ErrLocked)
	require.NoError(t, s.Close())
	require.ErrorIs(t, newSession(t, e).Save("talk"), fs.ErrExist)
	s = openSession(t, e, "talk", llmrun.SessionOptions{})
	require.Len(t, s.Messages(), 2)
	require.Equal(t, second, ask(s, "What is 3 + 4?"))
}

// TestSessionIsRefused checks that a session which does not match the engine, or is damaged,
// is refused with its own error. RePrefill opens it if the model is the same.
func TestSessionIsRefused(t *testing.T) {
	model := longTextModel(t)
	dir := t.TempDir()
	o := llmrun.Options{Cache: llmrun.CacheOptions{KVDir: dir}, Memory: llmrun.MemoryOptions{KV: "k8v8"}}
	prompt := document(150)
	e := open(t, model, o)
	s := openSession(t, e, "a", llmrun.SessionOptions{})
	ids(t, s, prompt, 5)
	require.NoError(t, s.Save(""))
	text := s.Len()
	want := ids(t, s, []int32{50}, 5)
	require.NoError(t, s.Close())
	manifest := filepath.Join(dir, "sessions", "a.session")
	file := kvFiles(t, dir)[0]
	good, err := os.ReadFile(file)
	require.NoError(t, err)
	sound, err := os.ReadFile(manifest)
	require.NoError(t, err)

	refused := func(e *llmrun.Engine, kind error, text string) {
		t.Helper()
		_, err := e.OpenSession("a", llmrun.SessionOptions{})
		require.ErrorIs(t, err, kind)
		require.ErrorContains(t, err, text)
		_, err = e.OpenSession("a", llmrun.SessionOptions{})
		require.NotErrorIs(t, err, llmrun.ErrLocked, "the refused call released the lock")
	}
	rePrefills := func(e *llmrun.Engine) *llmrun.Session {
		t.Helper()
		var notices []string
		s := openSession(t, e, "a", llmrun.SessionOptions{RePrefill: true, Notify: func(text string) { notices = append(notices, text) }})
		require.Len(t, notices, 1)
		require.Contains(t, notices[0], "the session is re-prefilled")
		require.Equal(t, text, s.Len())
		return s
	}

	other := open(t, model, llmrun.Options{Cache: llmrun.CacheOptions{KVDir: dir}, Memory: llmrun.MemoryOptions{KV: "f32"}})
	refused(other, llmrun.ErrOtherSettings, "kv k8v8")
	require.NoError(t, rePrefills(other).Close())
	refused(open(t, tinyModel(t, nil), llmrun.Options{Cache: llmrun.CacheOptions{KVDir: dir}}), llmrun.ErrOtherModel, model)
	short := open(t, model, llmrun.Options{Context: 100, Cache: llmrun.CacheOptions{KVDir: dir}, Memory: llmrun.MemoryOptions{KV: "k8v8"}})
	refused(short, llmrun.ErrContextFull, "155 tokens")

	damage(t, file, 70_000)
	refused(open(t, model, o), llmrun.ErrFormat, file+" at offset")
	_, err = llmrun.VerifySession(dir, "a")
	require.ErrorIs(t, err, llmrun.ErrFormat)
	require.NoError(t, os.Remove(file))
	refused(open(t, model, o), llmrun.ErrKVMissing, file)
	s = rePrefills(open(t, model, o))
	require.Equal(t, want, ids(t, s, []int32{50}, 5))
	require.NoError(t, s.Close())

	require.NoError(t, os.WriteFile(file, good, 0o600))
	damage(t, manifest, 200)
	refused(open(t, model, o), llmrun.ErrFormat, manifest+" at offset")
	list, err := llmrun.Sessions(dir)
	require.NoError(t, err)
	require.Contains(t, list[0].Damage, "checksum")
	require.NoError(t, os.WriteFile(manifest, sound, 0o600))
	s = openSession(t, open(t, model, o), "a", llmrun.SessionOptions{})
	require.Equal(t, want, ids(t, s, []int32{50}, 5))
}

func TestSessionNames(t *testing.T) {
	e := open(t, demoModel, llmrun.Options{Cache: llmrun.CacheOptions{KVDir: t.TempDir()}})
	for _, name := range []string{"", ".", "../x", "a/b", "a b", ".hidden", strings.Repeat("x", 101)} {
		_, err := e.OpenSession(name, llmrun.SessionOptions{})
		require.ErrorIs(t, err, llmrun.ErrOptions, name)
		if name != "" {
			require.ErrorIs(t, newSession(t, e).Save(name), llmrun.ErrOptions, name)
		}
	}
	s := newSession(t, demo(t))
	require.ErrorIs(t, s.Save("x"), llmrun.ErrOptions, "there is no directory")
	_, err := demo(t).OpenSession("x", llmrun.SessionOptions{})
	require.ErrorIs(t, err, llmrun.ErrOptions)
	require.False(t, errors.Is(err, fs.ErrNotExist))

	blocked := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(blocked, nil, 0o600))
	_, err = open(t, demoModel, llmrun.Options{Cache: llmrun.CacheOptions{KVDir: blocked}}).OpenSession("x", llmrun.SessionOptions{})
	require.NotErrorIs(t, err, llmrun.ErrOptions)
	require.ErrorContains(t, err, blocked)
}

// TestRestoredPagesStayOnFlash opens a session that exceeds the memory limit, continues and
// saves it. The answers are those of a session in memory.
func TestRestoredPagesStayOnFlash(t *testing.T) {
	t.Parallel()
	model := longTextModel(t)
	dir := t.TempDir()
	little := llmrun.Options{Cache: llmrun.CacheOptions{KVDir: dir}, Memory: llmrun.MemoryOptions{KVRAM: 1, Chunk: 64, KV: "k8v8"}}
	steps := [][]int32{document(1500), document(300), document(20)}
	var want [][]int32
	s := newSession(t, open(t, model, llmrun.Options{Memory: llmrun.MemoryOptions{KV: "k8v8"}}))
	for _, step := range steps {
		want = append(want, ids(t, s, step, 10))
	}
	for i, step := range steps {
		e := open(t, model, little)
		s := openSession(t, e, "long", llmrun.SessionOptions{})
		require.Equal(t, want[i], ids(t, s, step, 10), "step %d", i)
		require.Positive(t, s.Stats().DecodeKV.ColdPages)
		require.NoError(t, s.Save(""))
		_, err := llmrun.VerifySession(dir, "long")
		require.NoError(t, err)
		require.NoError(t, e.Close())
	}
}

// TestSavedPagesAreNotSpilled generates with a sequence of several times the memory limit.
// Its pages are written to flash once, as saved segments, and not to the spill file. The
// answers are those of a session in memory.
func TestSavedPagesAreNotSpilled(t *testing.T) {
	if portable() && testing.Short() {
		t.Skip("saving does not depend on kernels; the test takes 4500 tokens")
	}
	dir := t.TempDir()
	const memoryStep = 2 << 20 // the limit counts memory in steps of this size
	steps := [][]int32{document(1300), document(200)}
	whole := open(t, demoModel, llmrun.Options{Memory: llmrun.MemoryOptions{KV: "k8v8"}})
	page := int64(whole.KVUse().PageBytes)
	e := open(t, demoModel, llmrun.Options{Cache: llmrun.CacheOptions{KVDir: dir}, Memory: llmrun.MemoryOptions{KVRAM: 10*page + memoryStep, Chunk: 100, KV: "k8v8"}})
	want, s := newSession(t, whole), newSession(t, e)
	var written int64
	for _, step := range steps {
		require.Equal(t, ids(t, want, step, 1), ids(t, s, step, 1))
		require.NoError(t, s.Flush()) // pages that are not saved yet may be spilled
		written += s.Stats().SavedBytes
		require.Equal(t, ids(t, want, step[:1], 20), ids(t, s, step[:1], 20))
		use := s.Stats().DecodeKV
		require.LessOrEqual(t, use.HotPages, 10)
		require.Greater(t, use.ColdPages, 10)
		require.Zero(t, use.Written)
		require.Empty(t, use.Failed)
		require.NoError(t, s.Flush())
		written += s.Stats().SavedBytes
	}
	var size int64
	files := kvFiles(t, dir)
	for _, name := range files {
		info, err := os.Stat(name)
		require.NoError(t, err)
		size += info.Size()
	}
	require.Equal(t, size, written, "all written files exist")
	e = open(t, demoModel, llmrun.Options{Cache: llmrun.CacheOptions{KVDir: dir}, Memory: llmrun.MemoryOptions{KV: "k8v8"}})
	s = newSession(t, e)
	ids(t, s, document(1300), 1)
	require.Equal(t, 1280, s.Stats().RestoredTokens, "the end of the prompt is saved too")
	const overhead = 64 << 10 // header and padding of a file
	require.Less(t, size, int64(1540/64)*page+int64(len(files))*overhead, "each page is saved once")
}
