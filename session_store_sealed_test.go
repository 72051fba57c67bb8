package llmrun_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/store/vfs"
)

// keyFile writes a key file and returns its name.
func keyFile(t testing.TB, seed byte) string {
	t.Helper()
	key := make([]byte, 32)
	for i := range key {
		key[i] = byte(i)*37 ^ seed
	}
	name := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(name, key, 0o600))
	return name
}

// filesWith returns the files below a directory that contain any of some bytes, in their
// content or in their name.
func filesWith(t testing.TB, dir string, secrets ...[]byte) (found []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		for _, secret := range secrets {
			if bytes.Contains(data, secret) || bytes.Contains([]byte(path), secret) {
				found = append(found, path)
				break
			}
		}
		return err
	}))
	return found
}

// tokenBytes returns tokens as segments and sessions store them.
func tokenBytes(ids []int32) (b []byte) {
	for _, id := range ids {
		b = binary.LittleEndian.AppendUint32(b, uint32(id))
	}
	return b
}

// largest returns the largest file of a directory.
func largest(t testing.TB, dir string) (path string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	size := int64(-1)
	for _, entry := range entries {
		info, err := entry.Info()
		require.NoError(t, err)
		if info.Size() > size {
			path, size = filepath.Join(dir, entry.Name()), info.Size()
		}
	}
	return path
}

// TestSealedSession continues an encrypted session in another process, with pages of keys and
// values on flash: the answers are those of a session that is not encrypted, and no file
// contains its tokens, its text or its name.
func TestSealedSession(t *testing.T) {
	model := longTextModel(t)
	prompt := document(700)
	var want []int32
	for _, key := range []string{"", keyFile(t, 1)} {
		dir := t.TempDir()
		o := llmrun.Options{Notify: func(text string) { t.Error(text) }, Memory: llmrun.MemoryOptions{KVRAM: 1, Chunk: 64}, Cache: llmrun.CacheOptions{KVDir: dir, KeyFile: key}}
		var got []int32
		for i := range 2 {
			e := open(t, model, o)
			s, err := e.OpenSession("my-doctor", llmrun.SessionOptions{})
			require.NoError(t, err)
			if i == 0 {
				got = append(got, ids(t, s, prompt, 8)...)
			} else {
				require.Equal(t, len(prompt)+8, s.Len())
				got = append(got, ids(t, s, []int32{50, 51, 52}, 8)...)
				require.Positive(t, s.Stats().RestoredTokens)
			}
			require.Positive(t, e.KVUse().ColdPages)
			require.NoError(t, s.Save(""))
			require.NoError(t, s.Close())
		}
		secrets := [][]byte{tokenBytes(prompt[:4]), tokenBytes(prompt[600:602]), []byte("my-doctor"), []byte("kv f32"), []byte("kv k8v8")}
		at := llmrun.SessionDir{Path: dir, KeyFile: key}
		list, err := at.Sessions()
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Equal(t, "my-doctor", list[0].Name)
		_, err = at.Verify("my-doctor")
		require.NoError(t, err)
		shown, err := at.Show("my-doctor")
		require.NoError(t, err)
		require.Equal(t, prompt, shown.IDs[:len(prompt)])
		if key == "" {
			want = got
			require.NotEmpty(t, filesWith(t, dir, secrets...))
			continue
		}
		require.Equal(t, want, got)
		require.Empty(t, filesWith(t, dir, secrets...))
		_, err = at.Remove("my-doctor")
		require.NoError(t, err)
		kv, err := at.KV()
		require.NoError(t, err)
		require.Zero(t, kv.Files)
	}
}

// TestSealedWithOtherKeys opens a directory with another key and with none: both use none of the
// encrypted files, leave them as they are, and tell of them who opens a new session.
func TestSealedWithOtherKeys(t *testing.T) {
	model := longTextModel(t)
	dir := t.TempDir()
	right := keyFile(t, 1)
	o := llmrun.Options{Cache: llmrun.CacheOptions{KVDir: dir, KeyFile: right}}
	prompt := document(600)
	s, err := open(t, model, o).OpenSession("talk", llmrun.SessionOptions{})
	require.NoError(t, err)
	ids(t, s, prompt, 4)
	require.NoError(t, s.Save(""))
	require.NoError(t, s.Close())
	before := filesWith(t, dir, []byte(".sealed"))
	require.NotEmpty(t, before)
	for _, key := range []string{"", keyFile(t, 2)} {
		var notices []string
		notify := func(text string) { notices = append(notices, text) }
		other := o
		other.Cache.KeyFile, other.Notify = key, notify
		engine := open(t, model, other)
		s := newSession(t, engine)
		ids(t, s, prompt[:200], 1)
		require.Zero(t, s.Stats().ReusedTokens)
		require.Empty(t, notices)
		s, err := engine.OpenSession("talk", llmrun.SessionOptions{Notify: notify})
		require.NoError(t, err)
		require.Zero(t, s.Len())
		require.Len(t, notices, 1)
		require.Contains(t, notices[0], "there is no session talk yet, or it needs another key file")
		require.Contains(t, notices[0], "(sessions: 1, keys and values: 1)")
		require.NoError(t, s.Close())
		at := llmrun.SessionDir{Path: dir, KeyFile: key}
		_, err = at.Show("talk")
		require.ErrorIs(t, err, fs.ErrNotExist)
		_, err = at.Remove("talk")
		require.ErrorIs(t, err, fs.ErrNotExist)
		_, err = at.Clean()
		require.NoError(t, err)
		text, err := at.Unreadable()
		require.NoError(t, err)
		require.Contains(t, notices[0], text)
	}
	require.Equal(t, before, filesWith(t, dir, []byte(".sealed")))
	text, err := llmrun.SessionDir{Path: dir, KeyFile: right}.Unreadable()
	require.NoError(t, err)
	require.Empty(t, text)
}

// TestDamagedSealedPrefixIsRePrefilled changes a byte of an encrypted segment: the answer does
// not change, the engine reports the damage, and replaces the file.
func TestDamagedSealedPrefixIsRePrefilled(t *testing.T) {
	t.Parallel()
	model := longTextModel(t)
	for _, ram := range []int64{0, 1} {
		dir := t.TempDir()
		var notices []string
		o := llmrun.Options{
			Notify: func(text string) { notices = append(notices, text) }, Memory: llmrun.MemoryOptions{KVRAM: ram, Chunk: 64},
			Cache: llmrun.CacheOptions{KVDir: dir, KeyFile: keyFile(t, 1)},
		}
		prompt := document(600)
		want := ids(t, newSession(t, open(t, model, o)), prompt, 4)
		file := largest(t, filepath.Join(dir, "kv"))
		damage(t, file, 100_000)
		s := newSession(t, open(t, model, o))
		require.Equal(t, want, ids(t, s, prompt, 4))
		require.NotEmpty(t, notices)
		require.Contains(t, notices[0], file+" at offset")
		s = newSession(t, open(t, model, o))
		require.Equal(t, want, ids(t, s, prompt, 4))
		require.Equal(t, 576, s.Stats().RestoredTokens, "the segment was replaced")
	}
}

// TestKeyFilesAreChecked opens engines with key files that cannot be used.
func TestKeyFilesAreChecked(t *testing.T) {
	dir := t.TempDir()
	good := keyFile(t, 1)
	inside := filepath.Join(dir, "key")
	data, err := os.ReadFile(good)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(inside, data, 0o600))
	short := good + "-short"
	require.NoError(t, os.WriteFile(short, data[:16], 0o600))
	for name, reason := range map[string]string{inside: "lies in the directory", short: "it has 16 bytes", good + "-none": "no such file"} {
		_, err := llmrun.OpenContext(context.Background(), demoModel, llmrun.Options{Cache: llmrun.CacheOptions{KVDir: dir, KeyFile: name}})
		require.ErrorIs(t, err, llmrun.ErrOptions)
		require.ErrorContains(t, err, "Cache.KeyFile: ")
		require.ErrorContains(t, err, reason)
		_, err = llmrun.SessionDir{Path: dir, KeyFile: name}.Sessions()
		require.ErrorIs(t, err, llmrun.ErrOptions)
	}
}

// TestEncryptionIsPlanned compares the planned heap with and without a key.
func TestEncryptionIsPlanned(t *testing.T) {
	t.Parallel()
	heap := func(o llmrun.CacheOptions) int64 {
		p, err := llmrun.PlanMemory(t.Context(), demoModel, llmrun.Options{Threads: 1, Context: 512, Cache: o}, llmrun.PlanOptions{})
		require.NoError(t, err)
		return p.By["heap"]
	}
	dir := t.TempDir()
	more := heap(llmrun.CacheOptions{KVDir: dir, KeyFile: keyFile(t, 1)}) - heap(llmrun.CacheOptions{KVDir: dir})
	require.InDelta(t, vfs.SealedHeap, more, float64(os.Getpagesize()))
}
