package llmrun_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// childVariable is the environment variable that makes TestChildProcess a child: its value is the
// name of the work, the model and the cache directory, separated by spaces.
const childVariable = "LLMRUN_TEST_CHILD"

// TestChildProcess is not a test: other tests run it in processes of their own.
func TestChildProcess(t *testing.T) {
	work := strings.Fields(os.Getenv(childVariable))
	if len(work) != 3 {
		t.Skip("other tests run this one as a child process")
	}
	model, dir := work[1], work[2]
	if strings.HasPrefix(work[0], devicePrefix) {
		runOnDevice(t, work[0], model, dir)
		return
	}
	if strings.HasPrefix(work[0], draftedPrefix) {
		answerUntilKilled(t, work[0], model, dir)
		return
	}
	switch work[0] {
	case "import":
		_, err := llmrun.ImportCached(context.Background(), model, dir, 0, nil)
		if errors.Is(err, llmrun.ErrLocked) {
			fmt.Println("locked")
			return
		}
		require.NoError(t, err)
	case "answer":
		options := llmrun.Options{Threads: 1, Context: 256, Cache: llmrun.CacheOptions{Dir: dir}, Memory: llmrun.MemoryOptions{RAM: 1 << 20}}
		_, err := llmrun.Open(model, options)
		var least *llmrun.MinimumError
		require.ErrorAs(t, err, &least)
		options.Memory.RAM = least.Minimum
		logits, _ := logitsOf(t, model, options)
		fmt.Println(logits)
	case "talk":
		_, err := childTalk(model).part(dir, 1)
		require.NoError(t, err)
	case "behind":
		talk := childTalk(model)
		talk.behind = true
		_, err := talk.part(dir, 1)
		require.NoError(t, err)
	case "remove":
		_, err := llmrun.RemoveSession(dir, "book")
		require.NoError(t, err)
	case "boundaries":
		compareAtBoundaries(t, model, dir)
	case "hold":
		e := open(t, model, llmrun.Options{Cache: llmrun.CacheOptions{Dir: dir}})
		openSession(t, e, "book", llmrun.SessionOptions{})
		fmt.Println("held")
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent ends or kills the process
	}
}

// childTalk returns the conversation of parents and children.
func childTalk(model string) *conversation {
	return &conversation{
		model: model, prompt: document(400),
		options: llmrun.Options{Threads: 1, Context: 512, Memory: llmrun.MemoryOptions{Chunk: 64, RAM: llmrun.NoLimit}},
	}
}

// child returns a process that does work; before are the words of a command that starts it.
func child(work, model, dir string, before ...string) *exec.Cmd {
	args := append(before, os.Args[0], "-test.run=^TestChildProcess$")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), childVariable+"="+strings.Join([]string{work, model, dir}, " "))
	return cmd
}

// TestProcessesStartOnAnEmptyCache answers in three processes that begin at the same time, in the smallest budget: each imports the model,
// or goes on without its pack while another one does, and none refuses.
func TestProcessesStartOnAnEmptyCache(t *testing.T) {
	model, dir := writeShape(t, small(t), "q8_0"), t.TempDir()
	want, _ := logitsOf(t, model, llmrun.Options{})
	var children sync.WaitGroup
	for range 3 {
		children.Go(func() {
			out, err := child("answer", model, dir).CombinedOutput()
			assert.NoError(t, err, "%s", out)
			assert.Contains(t, string(out), fmt.Sprintln(want))
		})
	}
	children.Wait()
	packs, err := llmrun.CachedPacks(dir)
	require.NoError(t, err)
	require.Len(t, packs, 1)
}

// TestProcessesImportAtOnce imports a model in two processes at the same time: one imports it, the
// other finds the pack or returns ErrLocked, and the cache holds one sound pack.
func TestProcessesImportAtOnce(t *testing.T) {
	model, dir := writeShape(t, small(t), "q8_0"), t.TempDir()
	want, _ := logitsOf(t, model, llmrun.Options{})
	outputs := make([]string, 2)
	var children sync.WaitGroup
	for i := range outputs {
		children.Go(func() {
			out, err := child("import", model, dir).CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			outputs[i] = string(out)
		})
	}
	children.Wait()
	require.LessOrEqual(t, strings.Count(strings.Join(outputs, ""), "locked"), 1)
	packs, err := llmrun.CachedPacks(dir)
	require.NoError(t, err)
	require.Len(t, packs, 1)
	require.NoError(t, llmrun.Verify(context.Background(), filepath.Join(dir, packs[0].Name), nil))
	got, notices := logitsOf(t, model, llmrun.Options{Cache: llmrun.CacheOptions{Dir: dir}})
	require.Equal(t, want, got)
	require.Empty(t, notices)
}

// TestSessionOfAnotherProcess opens and removes a session that another process holds: both return
// ErrLocked. After the process was killed, the session opens.
func TestSessionOfAnotherProcess(t *testing.T) {
	model, dir := packed(t, writeShape(t, small(t), "q8_0"), llmrun.ImportOptions{}), t.TempDir()
	talk := childTalk(model)
	want, err := talk.run(t.TempDir())
	require.NoError(t, err)
	first, err := talk.part(dir, 0)
	require.NoError(t, err)

	holder := child("hold", model, dir)
	out, err := holder.StdoutPipe()
	require.NoError(t, err)
	_, err = holder.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, holder.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "held\n", line)

	_, err = talk.part(dir, 1)
	require.ErrorIs(t, err, llmrun.ErrLocked)
	_, err = llmrun.RemoveSession(dir, "book")
	require.ErrorIs(t, err, llmrun.ErrLocked)
	require.NoError(t, holder.Process.Kill())
	_ = holder.Wait()
	second, err := talk.part(dir, 1)
	require.NoError(t, err)
	require.Equal(t, want, slices.Concat(first, second))
}
