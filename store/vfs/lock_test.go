package vfs

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// lockHelper is set in the process that TestLockOfAnotherProcess starts.
const lockHelper = "LLMRUN_TEST_LOCK"

func TestLock(t *testing.T) {
	for name, fsys := range map[string]FS{
		"os": Sub(OS(), t.TempDir()), "mem": NewMem(), "throttled": Throttled(NewMem(), 0, 0),
		"faulty": NewFaulty(NewMem(), func(Op) error { return nil }),
	} {
		t.Run(name, func(t *testing.T) {
			first, err := Lock(fsys, "a.lock")
			require.NoError(t, err)
			_, err = Lock(fsys, "a.lock")
			require.ErrorIs(t, err, ErrLocked)
			require.ErrorContains(t, err, "a.lock")
			require.Contains(t, HeldLock(err), "a.lock")
			_, err = fsys.Open("a.lock.none")
			require.Error(t, err)
			require.Empty(t, HeldLock(err))
			other, err := Lock(fsys, "b.lock")
			require.NoError(t, err, "locks with different names are independent")
			require.NoError(t, other.Close())
			require.NoError(t, first.Close())
			again, err := Lock(fsys, "a.lock")
			require.NoError(t, err)
			require.NoError(t, again.Close())
			left, err := fsys.ReadDir(".")
			require.NoError(t, err)
			require.Empty(t, left, "a lock leaves no file")
		})
	}
}

// TestLockOfAnotherProcess takes a lock in a child process, kills the child and acquires
// the lock although its file still exists.
func TestLockOfAnotherProcess(t *testing.T) {
	if path := os.Getenv(lockHelper); path != "" {
		if _, err := Lock(OS(), path); err != nil {
			os.Exit(1)
		}
		os.Stdout.WriteString("locked\n")
		select {} // until killed
	}
	path := filepath.Join(t.TempDir(), "x.lock")
	child := exec.Command(os.Args[0], "-test.run=^TestLockOfAnotherProcess$")
	child.Env = append(os.Environ(), lockHelper+"="+path)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "locked\n", line)
	_, err = Lock(OS(), path)
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	require.FileExists(t, path)
	l, err := Lock(OS(), path)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.NoFileExists(t, path)
}
