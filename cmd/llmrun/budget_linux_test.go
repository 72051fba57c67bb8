package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestMeasuredBudgetInControlGroup runs the command in control groups that are 5 % larger than its budget,
// with a cold page cache. The kernel does not kill it, it holds at most the budget including its
// code, and it generates the same tokens every time. It refuses only budgets below the minimum in its
// error. LLMRUN_TEST_LONG=1 uses a larger model, and more budgets and contexts.
func TestMeasuredBudgetInControlGroup(t *testing.T) {
	testutil.Measured(t)
	group := newMemoryGroup(t, 1<<40)
	binary := builtCommand(t)

	shape, ok := synth.FindShape("tiny")
	require.True(t, ok)
	shape.Layers, shape.Dim, shape.FFN, shape.Vocab = 12, 1024, 4096, 4096
	percents, contexts := []int{20, 40, 70, 110}, []int{256}
	if os.Getenv("LLMRUN_TEST_LONG") != "" {
		shape, ok = synth.FindShape("qwen2.5-0.5b")
		require.True(t, ok)
		percents, contexts = []int{15, 20, 25, 30, 40, 50, 60, 75, 90, 100, 120}, []int{64, 2048, 8192}
	}
	path, size := packedModel(t, shape)
	for _, context := range contexts {
		want := ""
		refused := 0
		for _, percent := range percents {
			budget := size * int64(percent) / 100
			what := fmt.Sprintf("%d %% of the pack, context %d", percent, context)
			if least := leastBudget(t, binary, path, context); budget < least {
				refused++
				runRefused(t, group, binary, path, budget, context)
				t.Logf("%s: refused, %d bytes are less than the minimum of %d", what, budget, least)
				continue
			}
			ids, peak := runInGroup(t, group, binary, path, budget, context)
			t.Logf("%s: %d of %d bytes, %.1f %%", what, peak, budget, 100*float64(peak)/float64(budget))
			require.Greater(t, peak, budget/8, "%s: the samples missed most of the memory", what)
			require.LessOrEqual(t, peak, budget, what)
			if want == "" {
				want = ids
			}
			require.Equal(t, want, ids, what)
			ids, peak = runInGroup(t, group, binary, path, budget, context, "--pin", "file")
			t.Logf("%s, mapped: %d of %d bytes, %.1f %%", what, peak, budget, 100*float64(peak)/float64(budget))
			require.Greater(t, peak, budget/8, "%s: the samples missed most of the memory", what)
			require.LessOrEqual(t, peak, budget, what)
			require.Equal(t, want, ids, what)
		}
		require.Less(t, refused, len(percents)-1)
	}
}

// builtCommand returns the path of the command, which the first test that needs it builds.
func builtCommand(t *testing.T) string {
	binary, err := buildOnce()
	require.NoError(t, err)
	return binary
}

// buildOnce builds the command in sharedDir.
var buildOnce = sync.OnceValues(func() (string, error) {
	dir, err := sharedDir()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "llmrun")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return binary, nil
})

// packedModel writes a model of random weights as a pack and returns the path and the size of
// the pack.
func packedModel(t *testing.T, shape synth.Shape) (path string, size int64) {
	dir := t.TempDir()
	source := filepath.Join(dir, "m.gguf")
	require.NoError(t, synth.Write(context.Background(), vfs.OS(), source, synth.Options{Shape: shape, Quant: "q4_0"}))
	path = filepath.Join(dir, "m.pack")
	_, err := llmrun.Import(context.Background(), source, path, llmrun.ImportOptions{Replace: true})
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	return path, info.Size()
}

// leastBudget returns the minimum that the command states in a refusal. It depends on the program,
// whose code counts.
func leastBudget(t *testing.T, binary, path string, tokens int) int64 {
	out, err := exec.Command(binary, "plan", "-m", path, "--ram", "1MiB", "--ctx", strconv.Itoa(tokens), "--threads", "2", "--no-import", "--json").Output()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, exitBudget, exit.ExitCode(), "%s", exit.Stderr)
	var refused struct {
		Minimum int64 `json:"minimum_bytes"`
	}
	require.NoError(t, json.Unmarshal(out, &refused))
	require.Positive(t, refused.Minimum)
	return refused.Minimum
}

// arguments returns the arguments for a short answer.
func arguments(path string, budget int64, context int) []string {
	return []string{
		"run", "-m", path, "--ram", strconv.FormatInt(budget, 10), "--ctx", strconv.Itoa(context), "--threads", "2",
		"--ids", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20", "-n", "12", "--ignore-eos", "--temp", "0", "--json", "-q", "--no-import",
	}
}

// runInGroup runs the command in its own group and returns the generated ids and the most memory that it held, which it
// reads from the kernel until the command ends.
func runInGroup(t *testing.T, group *memoryGroup, binary, path string, budget int64, context int, more ...string) (ids string, peak int64) {
	t.Helper()
	dropFromCache(t, path)
	dropFromCache(t, binary)
	group.remove(t)
	require.NoError(t, group.make(budget+budget/20))
	child := group.command(binary, append(arguments(path, budget, context), more...)...)
	var stdout, stderr bytes.Buffer
	child.Stdout, child.Stderr = &stdout, &stderr
	require.NoError(t, child.Start())
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	ticks := time.NewTicker(20 * time.Millisecond)
	defer ticks.Stop()
	for running := true; running; {
		select {
		case err := <-ended:
			require.NoError(t, err, "killed: %d; %s", group.killed(t), &stderr)
			running = false
		case <-ticks.C:
			peak = max(peak, residentOf(child.Process.Pid).Peak)
		}
	}
	require.Zero(t, group.killed(t))
	var answer struct {
		IDs []int32 `json:"ids"`
	}
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &answer))
	require.Len(t, answer.IDs, 12)
	return fmt.Sprint(answer.IDs), peak
}

// runRefused checks that llmrun refuses a budget that is too small.
func runRefused(t *testing.T, group *memoryGroup, binary, path string, budget int64, context int) {
	t.Helper()
	out, err := group.command(binary, arguments(path, budget, context)...).CombinedOutput()
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit), "%v: %s", err, out)
	require.Equal(t, exitBudget, exit.ExitCode(), "%s", out)
	require.Contains(t, string(out), "needs at least")
	require.Equal(t, 1, strings.Count(string(out), "\n"), "%s", out)
}

// dropFromCache removes a file from the page cache.
func dropFromCache(t *testing.T, path string) {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Sync())
	require.NoError(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
}
