package main

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

// summaryKills are the system calls at which TestSummariesSurviveKills kills a process, and at most the how many'th. A
// process looks for a cancelled job by newfstatat at each token and each prefill chunk, and saves a part by the others.
var summaryKills = []struct {
	call string
	most int
}{{"newfstatat", 45}, {"newfstatat", 25}, {"pwrite64", 3}, {"fsync", 8}, {"renameat", 3}}

// TestSummariesSurviveKills kills summarize with SIGKILL at random calls of the system, and starts it again until the
// document is done: the result is that of a run that nothing interrupts, and no finished part is computed again.
// LLMRUN_TEST_SWEEP kills a job of 23 parts 100 times instead of a small one 20 times.
func TestSummariesSurviveKills(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command, and runs the bundled model")
	}
	strace, r := testutil.Strace(t), testutil.Random(t)
	binary, dir := builtCommand(t), t.TempDir()
	file := filepath.Join(dir, "doc.md")
	require.NoError(t, os.WriteFile(file, []byte(variedText(r, testutil.Effort(600, 4300))), 0o600))
	summarize := []string{binary, "summarize", file, "--part-tokens", "64", "--length", "20", "--temp", "0.7", "--seed", "11", "--json", "-q", "--cache-dir"}
	var want llmrun.Summary
	require.NoError(t, json.Unmarshal(outputOf(t, append(summarize, filepath.Join(dir, "calm"))), &want))
	require.GreaterOrEqual(t, want.Computed, testutil.Effort(3, 23))

	kills, finished := 0, 0
	for most := testutil.Effort(20, 100); kills < most; finished++ {
		cache := t.TempDir()
		require.NoError(t, os.Chmod(cache, 0o700))
		command := append(summarize, cache)
		var got llmrun.Summary
		var saved map[string]os.FileInfo
		for {
			run := command
			if kills < most {
				at := summaryKills[r.IntN(len(summaryKills))]
				run = append(testutil.KillAt(strace, at.call, 1+r.IntN(at.most)), command...)
			}
			out, err := exec.Command(run[0], run[1:]...).Output()
			now := savedParts(t, cache)
			for name, old := range saved {
				require.NotNil(t, now[name], "the answer %s of an earlier run is lost", name)
				require.True(t, os.SameFile(old, now[name]) && old.ModTime().Equal(now[name].ModTime()), "the answer %s was computed again", name)
			}
			if err == nil {
				require.NoError(t, json.Unmarshal(out, &got))
				break
			}
			require.True(t, testutil.Killed(err), "%v", err)
			kills, saved = kills+1, now
		}
		require.Equal(t, want.Text, got.Text)
		require.Equal(t, want.Parts, got.Parts)
		require.Equal(t, len(saved), got.Reused+got.ReusedMerges)
		require.Equal(t, want.Computed+want.ComputedMerges, len(saved)+got.Computed+got.ComputedMerges)
	}
	t.Logf("%d kills, %d jobs finished, of %d parts and %d merges", kills, finished, want.Computed, want.ComputedMerges)
}

// savedParts returns the files of finished answers in a cache directory, which has at most one job.
func savedParts(t *testing.T, cache string) map[string]os.FileInfo {
	files, err := filepath.Glob(filepath.Join(cache, "jobs", "*", "*.part"))
	require.NoError(t, err)
	parts := map[string]os.FileInfo{}
	for _, name := range files {
		parts[name], err = os.Stat(name)
		require.NoError(t, err)
	}
	return parts
}

// outputOf returns what a command prints.
func outputOf(t *testing.T, command []string) []byte {
	t.Helper()
	out, err := exec.Command(command[0], command[1:]...).Output()
	require.NoError(t, err)
	return out
}

// variedText returns about so many bytes of paragraphs of simple sentences, no two parts of which are alike.
func variedText(r *rand.Rand, bytes int) string {
	pick := func(words string) string {
		all := strings.Fields(words)
		return all[r.IntN(len(all))]
	}
	var b strings.Builder
	for sentence := 1; b.Len() < bytes; sentence++ {
		b.WriteString(pick("Kate Max Nora Omar Ruby Tim Hana") + " " + pick("has seen wants likes will-buy has-lost") + " the " + pick("old small green paper northern") + " " + pick("boat letter bridge garden camera tram") + " in " + pick("Rome Lima Oslo Bergen Cairo") + ".")
		if b.WriteByte(' '); sentence%4 == 0 {
			b.WriteString("\n\n")
		}
	}
	return b.String()
}
