package llmrun_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

// killedCalls are the system calls at which TestKilledAtEverySystemCall kills a process: those
// that change files.
var killedCalls = []string{"pwrite64", "fsync", "renameat", "unlinkat", "fallocate", "ftruncate", "mkdirat", "flock"}

// TestKilledAtEverySystemCall kills a process with SIGKILL at call k of a system call that changes
// files, for several k, or for every k with LLMRUN_TEST_SWEEP: while it imports a model, while it
// continues and saves a session, at once or behind, and while it removes one. The cache then holds what it held or
// what the process was to write, and works.
func TestKilledAtEverySystemCall(t *testing.T) {
	strace := testutil.Strace(t)
	file := writeShape(t, small(t), "q8_0")
	pack := packed(t, file, llmrun.ImportOptions{})
	talk := childTalk(pack)
	want, err := talk.run(t.TempDir())
	require.NoError(t, err)
	before := t.TempDir()
	_, err = talk.part(before, 0)
	require.NoError(t, err)
	wantLogits, _ := logitsOf(t, pack, llmrun.Options{})
	empty := t.TempDir()

	for work, c := range map[string]struct {
		model, prepared string
		check           func(t *testing.T, dir string)
	}{
		"import": {file, empty, func(t *testing.T, dir string) {
			got, notices := logitsOf(t, file, llmrun.Options{Cache: llmrun.CacheOptions{Dir: dir}})
			require.Empty(t, notices)
			require.Equal(t, wantLogits, got)
		}},
		"talk":   {pack, before, func(t *testing.T, dir string) { checkTalk(t, talk, dir, want) }},
		"behind": {pack, before, func(t *testing.T, dir string) { checkTalk(t, talk, dir, want) }},
		"remove": {pack, before, func(t *testing.T, dir string) {
			list, err := llmrun.Sessions(dir)
			require.NoError(t, err)
			if len(list) == 1 {
				checkTalk(t, talk, dir, want)
			}
			_, err = llmrun.CleanCachedKV(dir)
			require.NoError(t, err)
		}},
	} {
		t.Run(work, func(t *testing.T) {
			killed := 0
			for _, call := range killedCalls {
				killed += killEach(func(k int) bool {
					dir := t.TempDir()
					require.NoError(t, os.CopyFS(dir, os.DirFS(c.prepared)))
					out, err := child(work, c.model, dir, testutil.KillAt(strace, call, k)...).CombinedOutput()
					died := testutil.Killed(err)
					require.True(t, died || err == nil, "call %d of %s: %v\n%s", k, call, err, out)
					c.check(t, dir)
					return died
				})
			}
			require.Positive(t, killed)
			t.Logf("%d processes killed", killed)
		})
	}
}

// killEach calls kill for k = 1, 2, … or only for some k, until three processes in a row survive:
// strace counts the calls of each thread, so that one process may survive by chance.
func killEach(kill func(k int) bool) (killed int) {
	most := testutil.Effort(2, 200)
	for k, survived := 1, 0; k <= most && survived < 3; k++ {
		if kill(k) {
			killed, survived = killed+1, 0
		} else {
			survived++
		}
	}
	return killed
}

// checkTalk checks that a cache holds the session before or after the killed process saved it, and
// that it can be continued.
func checkTalk(t *testing.T, talk *conversation, dir string, want []int32) {
	_, err := llmrun.VerifySession(dir, "book")
	require.NoError(t, err)
	shown, err := llmrun.ShowSession(dir, "book")
	require.NoError(t, err)
	if shown.Tokens < len(talk.prompt) { // the first half
		got, err := talk.part(dir, 1)
		require.NoError(t, err)
		require.Equal(t, want[4:], got)
	}
	require.Empty(t, talk.notices)
}
