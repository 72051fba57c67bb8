package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// output collects what the app prints.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// vault returns a directory with one note; the index goes to another one.
func vault(t *testing.T) string {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "fox.md"), []byte("The fox is called Ruby."), 0o600))
	return dir
}

// TestAppWithoutAModel runs each command.
func TestAppWithoutAModel(t *testing.T) {
	var out output
	in := strings.NewReader("find ruby\nask Who is Ruby?\ntrim\nfind fox\nfly\nquit\nfind ruby\n")
	require.NoError(t, run(context.Background(), []string{vault(t)}, in, &out, nil))
	require.Regexp(t, `^1 notes, 1 new or changed, 0 removed
fox.md: The fox is called Ruby.
fox.md:
The fox is called Ruby.

Who is Ruby\?
released [1-9]\d* KiB
fox.md: The fox is called Ruby.
error: there is no command "fly": find, ask, trim or quit
$`, out.String())
	require.ErrorContains(t, run(context.Background(), nil, in, &out, nil), "usage")
}

// TestAppFollowsTheVault adds a note, and ticks.
func TestAppFollowsTheVault(t *testing.T) {
	dir := vault(t)
	var out output
	in, commands := io.Pipe()
	ticks, ended := make(chan time.Time), make(chan error)
	go func() { ended <- run(context.Background(), []string{dir}, in, &out, ticks) }()
	ticks <- time.Time{} // the app has begun to watch
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cat.md"), []byte("The cat is called Henry."), 0o600))
	ticks <- time.Time{}
	ticks <- time.Time{} // it takes this one when it has handled the one before
	require.Contains(t, out.String(), "2 notes, 1 new or changed, 0 removed")
	_, err := io.WriteString(commands, "find henry\n")
	require.NoError(t, err)
	require.NoError(t, commands.Close())
	require.NoError(t, <-ended)
	require.Contains(t, out.String(), "cat.md: The cat is called Henry.")
}

// TestAppAnswersWithSources asks the bundled model.
func TestAppAnswersWithSources(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the bundled model")
	}
	dir := vault(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "jacket.md"), []byte("# The podcast\n2 March 2019\n\nKevin's jacket is pink."), 0o600))
	var out output
	model := filepath.Join(testutil.Root(t), "cmd", "llmrun", "bundled", "model.pack")
	require.NoError(t, run(context.Background(), []string{dir, model}, strings.NewReader("ask What color is Kevin's jacket?\ntrim\n"), &out, nil))
	require.Contains(t, out.String(), "\nSources: jacket.md\n")
	require.Contains(t, out.String(), "released")
}
