package llmrun_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/testutil/failing"
	"github.com/llmrun/llmrun/store/vfs"
)

// faultyWork is work on files. dir holds a copy of what prepare made.
type faultyWork struct {
	prepare func(t *testing.T, dir string)
	work    func(t *testing.T, dir string) failing.Outcome
}

// harmless accepts operations whose failure loses nothing, so that the work goes on without a
// word: noting when a file was used; creating a directory that exists; removing or truncating
// what is not needed any more; closing a file that was only read; reserving disk space, which has
// a fallback; remembered hashes, with the list of their directory; the probes that find the
// format of a file, after which the reader of that format reports the failure; and reads of
// spilled pages ahead of a pass that then does not need them.
func harmless(op vfs.Op) bool {
	_, name := vfs.Split(op.Path)
	if _, err := os.Stat(filepath.Join(op.Path, "hashes.lock")); err == nil && op.Kind == vfs.OpReadDir {
		return true
	}
	if strings.HasPrefix(name, "hashes") || strings.HasSuffix(name, ".use") {
		return true
	}
	switch op.Kind {
	case vfs.OpTouch, vfs.OpRemove, vfs.OpTruncate, vfs.OpAllocate, vfs.OpMkdir:
		return true
	case vfs.OpReadDir, vfs.OpSyncDir, vfs.OpStat:
		// In a directory of sessions itself, hashes are remembered, and free space is looked up.
		if name == "." || strings.Trim(name, "0123456789") == "" {
			return true
		}
	case vfs.OpClose:
		return !strings.Contains(op.Path, vfs.TempMark)
	}
	probe := op.Offset <= 0 && strings.HasSuffix(name, ".gguf") || op.Offset <= 4096 && strings.HasSuffix(name, ".pack")
	return probe && op.Kind != vfs.OpWrite || strings.HasPrefix(name, "scratch-") && op.Kind == vfs.OpRead
}

// answerWith opens a model, continues a prompt and closes the model.
func answerWith(t *testing.T, model string, o llmrun.Options, prompt, want []int32) (out failing.Outcome) {
	o.Notify = func(text string) { out.Notices = append(out.Notices, text) }
	e, err := llmrun.Open(model, o)
	if err != nil {
		out.Err = err
		return out
	}
	s, err := e.NewSession()
	require.NoError(t, err)
	a := collect(s.GenerateIDs(context.Background(), prompt, drawn(4)))
	if a.err == nil && !slices.Equal(want, a.IDs) {
		t.Errorf("tokens %v, want %v", a.IDs, want)
	}
	if failed := e.KVUse().Failed; failed != "" {
		out.Notices = append(out.Notices, failed)
	}
	out.Err = errors.Join(a.err, s.Close(), e.Close())
	require.NoError(t, e.CheckMemory())
	return out
}

// faultyWorks returns all work on files that users start.
func faultyWorks(t *testing.T) map[string]faultyWork {
	file := writeShape(t, small(t), "q8_0")
	pack := packed(t, file, llmrun.ImportOptions{})
	base := llmrun.Options{Threads: 2, Context: 512, Memory: llmrun.MemoryOptions{Chunk: 64, RAM: llmrun.NoLimit}}
	streams, cold := base, base
	streams.Memory.RAM = minimum(t, pack, base) + 1<<20
	cold.Memory.KVRAM, cold.Cache.NoKV = 1, true
	prompt := document(330)
	want := answerTokens(t, pack, base, prompt)
	talk := &conversation{model: pack, options: base, prompt: document(400)}
	behind := &conversation{model: pack, options: base, prompt: document(400), behind: true}
	nothing := func(*testing.T, string) {}
	return map[string]faultyWork{
		"open": {nothing, func(t *testing.T, _ string) failing.Outcome {
			return answerWith(t, file, base, prompt, want)
		}},
		"import": {nothing, func(t *testing.T, dir string) failing.Outcome {
			_, err := llmrun.Import(context.Background(), file, filepath.Join(dir, "m.pack"), llmrun.ImportOptions{})
			return failing.Outcome{Err: err}
		}},
		"import to the cache": {nothing, func(t *testing.T, dir string) failing.Outcome {
			_, err := llmrun.ImportCached(context.Background(), file, dir, 0, nil)
			return failing.Outcome{Err: err}
		}},
		"streamed": {nothing, func(t *testing.T, _ string) failing.Outcome {
			return answerWith(t, pack, streams, prompt, want)
		}},
		"spill": {nothing, func(t *testing.T, dir string) failing.Outcome {
			o := cold
			o.Cache.KVDir = dir
			return answerWith(t, pack, o, prompt, want)
		}},
		"save": {nothing, func(t *testing.T, dir string) failing.Outcome {
			_, err := talk.part(dir, 0)
			return failing.Outcome{Err: err, Notices: talk.notices}
		}},
		"save behind": {nothing, func(t *testing.T, dir string) failing.Outcome {
			_, err := behind.part(dir, 0)
			return failing.Outcome{Err: err, Notices: behind.notices}
		}},
		"restore": {func(t *testing.T, dir string) {
			_, err := talk.part(dir, 0)
			require.NoError(t, err)
		}, func(t *testing.T, dir string) failing.Outcome {
			_, err := talk.part(dir, 1)
			return failing.Outcome{Err: err, Notices: talk.notices}
		}},
		"sessions rm": {func(t *testing.T, dir string) {
			_, err := talk.part(dir, 0)
			require.NoError(t, err)
		}, func(t *testing.T, dir string) failing.Outcome {
			_, err := llmrun.RemoveSession(dir, "book")
			if err == nil {
				require.Empty(t, kvFiles(t, dir))
			}
			return failing.Outcome{Err: err}
		}},
		"cache clean": {func(t *testing.T, dir string) {
			answerTokens(t, file, llmrun.Options{Cache: llmrun.CacheOptions{Dir: dir}}, document(700))
		}, func(t *testing.T, dir string) failing.Outcome {
			_, err := llmrun.CleanCachedKV(dir)
			return failing.Outcome{Err: err}
		}},
	}
}

// answerTokens returns the answer to a prompt.
func answerTokens(t *testing.T, model string, o llmrun.Options, prompt []int32) []int32 {
	t.Helper()
	e, err := llmrun.Open(model, o)
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	return ids(t, newSession(t, e), prompt, 4)
}

// TestEveryFailedOperationIsReported makes operation k on files fail, for every k.
func TestEveryFailedOperationIsReported(t *testing.T) {
	for name, w := range faultyWorks(t) {
		t.Run(name, func(t *testing.T) {
			prepared := t.TempDir()
			w.prepare(t, prepared)
			begin := func() func() failing.Outcome {
				dir, err := os.MkdirTemp(t.TempDir(), "")
				require.NoError(t, err)
				require.NoError(t, os.CopyFS(dir, os.DirFS(prepared)))
				return func() failing.Outcome { return w.work(t, dir) }
			}
			returned, noticed, without := failing.EachOperation(t, testutil.Effort(3, 1), begin, harmless)
			require.Positive(t, returned)
			t.Logf("%d errors returned, %d reported, %d without effect", returned, noticed, without)
		})
	}
}
