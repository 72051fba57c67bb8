package main

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil/hubserver"
)

// TestPullStopsOnSignals sends SIGINT and SIGTERM to a pull that has a part of a file: it ends as other commands do, says
// what is kept, and the same command asks for the rest only. After SIGKILL, which leaves no time for a checkpoint, it
// ends with the same file.
func TestPullStopsOnSignals(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command")
	}
	binary := builtCommand(t)
	data := hubserver.Content(3<<20, 1)
	for number, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGKILL: -1} {
		server := hubserver.New(t)
		server.AddRepo("o/m", map[string][]byte{"m.gguf": data})
		server.DropAfter = 1 << 20
		waiting := make(chan bool, 1)
		server.Before = func(r *http.Request) {
			if r.Header.Get("Range") == "bytes=1048576-" { // the connection that would bring the rest
				waiting <- true
				<-r.Context().Done() // until the client has closed it
			} else if r.Header.Get("Range") == "" {
				server.Mu.Lock()
				server.Drops = 1
				server.Mu.Unlock()
			}
		}
		home := t.TempDir()
		models := filepath.Join(home, "models")
		pull := func(errs *bytes.Buffer) *exec.Cmd {
			command := exec.Command(binary, "pull", "hf:o/m", "--yes")
			command.Env = append(os.Environ(), "HF_ENDPOINT="+server.URL, "HF_TOKEN=hf_secret", "LLMRUN_MODELS="+models, "XDG_CACHE_HOME="+home, "NO_PROXY=127.0.0.1")
			command.Stderr = errs
			return command
		}
		var errs bytes.Buffer
		command := pull(&errs)
		require.NoError(t, command.Start())
		<-waiting
		require.NoError(t, command.Process.Signal(number))
		err := command.Wait()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, "%s", &errs)
		require.Equal(t, code, exit.ExitCode(), "%s", &errs)
		partial, err := os.ReadFile(filepath.Join(models, "m.gguf.partial"))
		require.NoError(t, err)
		require.Equal(t, data[:1<<20], partial)
		require.NoFileExists(t, filepath.Join(models, "m.gguf"))
		require.NotContains(t, errs.String(), "hf_secret")

		server.Before, server.Drops = nil, 0
		server.Requests = nil
		if number == syscall.SIGKILL {
			require.NoError(t, pull(&errs).Run(), "%s", &errs)
		} else {
			require.Contains(t, errs.String(), "1.0 MiB of 3.0 MiB are kept; llmrun pull hf:o/m continues, and llmrun models rm m deletes them\n")
			require.NoError(t, pull(&errs).Run(), "%s", &errs)
			require.Equal(t, 1, server.Sent("Range", "bytes=1048576-"))
		}
		got, err := os.ReadFile(filepath.Join(models, "m.gguf"))
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, got))
		left, err := filepath.Glob(filepath.Join(models, "m.*"))
		require.NoError(t, err)
		require.ElementsMatch(t, []string{filepath.Join(models, "m.gguf"), filepath.Join(models, "m.model.json")}, left)
	}
}
