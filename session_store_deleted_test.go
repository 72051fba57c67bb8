package llmrun_test

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/cmd/llmrun/bundled"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
)

// secret is the text of a conversation, longer than a page.
var secret = strings.Repeat("The vault opens with the number seven and the word marigold. ", 12)

// traces returns the files below a directory that hold a text, or eight consecutive token ids
// of ids in 4 or 8 bytes, and all files of keys and values and of recurrent states.
func traces(t *testing.T, dir, text string, ids []int32) (found []string) {
	t.Helper()
	var needles [][]byte
	needles = append(needles, []byte(text))
	for at := 0; at+8 <= len(ids); at += 4 {
		var four, eight []byte
		for _, id := range ids[at : at+8] {
			four = binary.LittleEndian.AppendUint32(four, uint32(id))
			eight = binary.LittleEndian.AppendUint64(eight, uint64(id))
		}
		needles = append(needles, four, eight)
	}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		held := strings.HasSuffix(path, ".kv") || strings.HasSuffix(path, ".state")
		for _, needle := range needles {
			held = held || bytes.Contains(data, needle)
		}
		if held {
			found = append(found, path)
		}
		return nil
	}))
	return found
}

// converse holds a conversation about the secret in a session, repeats it with another answer
// and with other settings, so that segments of earlier saves stay, and returns its token ids.
func converse(t *testing.T, path string, cache llmrun.CacheOptions) (all []int32) {
	t.Helper()
	for _, format := range []string{"", "f16"} {
		e := open(t, path, llmrun.Options{Threads: 1, Memory: llmrun.MemoryOptions{KV: format}, Cache: cache})
		s := openSession(t, e, "diary", llmrun.SessionOptions{RePrefill: true})
		prompt := document(700)
		all = append(all, prompt...)
		ids(t, s, prompt, 70)
		require.NoError(t, s.Save(""))
		ids(t, s, document(100), 90)
		require.NoError(t, s.Save(""))
		require.NoError(t, e.Close())
	}
	return all
}

// TestRemovedSessionLeavesNoTrace scans all bytes below the cache directory after a session and
// then the prefix cache were removed.
func TestRemovedSessionLeavesNoTrace(t *testing.T) {
	t.Parallel()
	path := sampledModel(t)
	for _, remove := range []struct {
		name string
		run  func(dir string) error
	}{
		{"rm", func(dir string) error { _, err := llmrun.RemoveSession(dir, "diary"); return err }},
		{"expired", func(dir string) error {
			_, err := llmrun.ExpireCache(dir, time.Date(2200, 1, 2, 3, 4, 5, 0, time.UTC)) // all sessions are older
			return err
		}},
	} {
		t.Run(remove.name, func(t *testing.T) {
			dir := t.TempDir()
			ids := converse(t, path, llmrun.CacheOptions{Dir: dir})
			require.NotEmpty(t, traces(t, dir, secret, ids))
			require.NoError(t, remove.run(dir))
			require.Empty(t, traces(t, dir, secret, ids))
		})
	}
}

// TestRemovedSessionLeavesNoFormerBeginning removes a session that was continued under other system messages, in this
// process and in later ones: nothing of the text under the earlier ones stays.
func TestRemovedSessionLeavesNoFormerBeginning(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var all []int32
	for _, system := range []string{"", "Be brief.", "Be long."} {
		e := open(t, hubmodel.Pack, llmrun.Options{Threads: 1, Context: 2048, Memory: llmrun.MemoryOptions{KV: "k8v8"}, Cache: llmrun.CacheOptions{KVDir: dir}})
		s := openSession(t, e, "diary", llmrun.SessionOptions{})
		require.NoError(t, s.SetSystem(system))
		for _, err := range s.Chat(t.Context(), secret, llmrun.GenerateOptions{MaxTokens: 4}) {
			require.NoError(t, err)
		}
		require.NoError(t, s.Save(""))
		require.NoError(t, s.Close())
		saved, err := llmrun.ShowSession(dir, "diary")
		require.NoError(t, err)
		all = append(all, saved.IDs...)
		require.NoError(t, e.Close())
	}
	require.NotEmpty(t, traces(t, dir, secret[:60], all))
	_, err := llmrun.RemoveSession(dir, "diary")
	require.NoError(t, err)
	require.Empty(t, traces(t, dir, secret[:60], all))
}

// TestRemovedSessionLeavesNoState removes a session of a model with recurrent state, one of whose states lost its segment.
func TestRemovedSessionLeavesNoState(t *testing.T) {
	t.Parallel()
	path, dir := testutil.Shared(t, "fixtures", "lfm2"), t.TempDir()
	e := open(t, path, llmrun.Options{Threads: 1, Cache: llmrun.CacheOptions{Dir: dir}})
	s := openSession(t, e, "diary", llmrun.SessionOptions{RePrefill: true})
	prompt := make([]int32, 140)
	for i := range prompt {
		prompt[i] = int32(20 + i*79%400)
	}
	ids(t, s, prompt, 2)
	require.NoError(t, s.Save(""))
	require.NoError(t, e.Close())
	states, err := filepath.Glob(filepath.Join(dir, "*", "*.state"))
	require.NoError(t, err)
	require.NotEmpty(t, states)
	data, err := os.ReadFile(states[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(states[0]), strings.Repeat("a1", 16)+".state"), data, 0o600))
	_, err = llmrun.RemoveSession(dir, "diary")
	require.NoError(t, err)
	require.Empty(t, traces(t, dir, secret, prompt))
}

// TestTextOfRemovedSessionIsGone scans for the text of messages, with the bundled model's
// tokenizer.
func TestTextOfRemovedSessionIsGone(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the bundled model")
	}
	dir := t.TempDir()
	e := open(t, bundled.Name, llmrun.Options{FS: bundled.FS, Threads: 1, Cache: llmrun.CacheOptions{KVDir: dir}})
	s := openSession(t, e, "diary", llmrun.SessionOptions{})
	for range s.Chat(t.Context(), secret, llmrun.GenerateOptions{MaxTokens: 4}) {
	}
	require.NoError(t, s.Save(""))
	require.NoError(t, e.Close())
	kept, err := llmrun.ShowSession(dir, "diary")
	require.NoError(t, err)
	require.NotEmpty(t, kept.IDs)
	require.NotEmpty(t, traces(t, dir, secret[:60], kept.IDs))
	_, err = llmrun.RemoveSession(dir, "diary")
	require.NoError(t, err)
	require.Empty(t, traces(t, dir, secret[:60], kept.IDs))
}
