package llmrun_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store"
)

// TestFlippedBytesAreDetectedOrHarmless changes one random byte of a pack, of saved keys and
// values and of a saved session, again and again: 10 000 times each with LLMRUN_TEST_SWEEP. Each
// change is detected with ErrFormat or an unsupported version, or changes no answer. Smaller files have
// tests of every byte, in store/pack and kv/segment.
func TestFlippedBytesAreDetectedOrHarmless(t *testing.T) {
	pack := packed(t, writeShape(t, small(t), "q8_0"), llmrun.ImportOptions{})
	base := llmrun.Options{Threads: 2, Context: 512, Memory: llmrun.MemoryOptions{Chunk: 64, RAM: llmrun.NoLimit}}
	talk := &conversation{model: pack, options: base, prompt: document(400)}
	dir := t.TempDir()
	first, err := talk.part(dir, 0)
	require.NoError(t, err)
	sound := t.TempDir()
	require.NoError(t, os.CopyFS(sound, os.DirFS(dir)))
	want, err := talk.part(sound, 1)
	require.NoError(t, err)
	require.NotEqual(t, first, want)

	wantLogits, _ := logitsOf(t, pack, base)
	verifySession := func() error {
		_, err := llmrun.VerifySession(dir, "book")
		return err
	}
	for name, c := range map[string]struct {
		file     string
		verify   func() error
		harmless func() bool // the answer of a file that verify accepts is right
	}{
		"pack": {pack, func() error { return llmrun.Verify(context.Background(), pack, nil) }, func() bool {
			got, _ := logitsOf(t, pack, base)
			return slices.EqualFunc(wantLogits, got, slices.Equal[[]float32])
		}},
		"keys and values": {kvFiles(t, dir)[0], verifySession, func() bool {
			copied := t.TempDir()
			require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
			got, err := talk.part(copied, 1)
			return err == nil && slices.Equal(want, got)
		}},
		"session": {filepath.Join(dir, "sessions", "book.session"), verifySession, func() bool { return false }},
	} {
		t.Run(name, func(t *testing.T) {
			detected, harmless := flips(t, c.file, testutil.Effort(150, 10_000), c.verify, c.harmless)
			require.NoError(t, c.verify(), "the last change is undone")
			require.Positive(t, detected)
			t.Logf("%d changes detected, %d harmless", detected, harmless)
		})
	}
}

// flips changes random bytes of a file, one at a time.
func flips(t *testing.T, name string, n int, verify func() error, harmless func() bool) (detected, without int) {
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	require.NoError(t, err)
	defer file.Close()
	info, err := file.Stat()
	require.NoError(t, err)
	rng := testutil.Random(t)
	for range n {
		at, bit := rng.Int64N(info.Size()), byte(1)<<rng.IntN(8)
		was := make([]byte, 1)
		_, err := file.ReadAt(was, at)
		require.NoError(t, err)
		_, err = file.WriteAt([]byte{was[0] ^ bit}, at)
		require.NoError(t, err)
		switch err := verify(); {
		case err == nil:
			require.True(t, harmless(), "bit %#x of byte %d of %d was accepted, and the answer is another one", bit, at, info.Size())
			without++
		default:
			requireRefusal(t, err, at)
			detected++
		}
		_, err = file.WriteAt(was, at)
		require.NoError(t, err)
	}
	return detected, without
}

// requireRefusal requires the error of a damaged or unsupported file.
func requireRefusal(t *testing.T, err error, at int64) {
	t.Helper()
	for _, kind := range []error{llmrun.ErrFormat, store.ErrUnsupported, llmrun.ErrKVMissing} {
		if errors.Is(err, kind) {
			return
		}
	}
	t.Fatalf("byte %d: the error is of another kind: %v", at, err)
}
