package pack

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store/vfs"
)

// killDirectory and killAt are set in the process that TestKilledWriter starts: the directory
// to write to, and the number of the operation at which the process dies.
const (
	killDirectory = "LLMRUN_TEST_PACK_DIR"
	killAt        = "LLMRUN_TEST_PACK_KILL_AT"
)

// writeFailed is the exit status of the process if a write fails before the process dies.
const writeFailed = 3

// TestKilledWriter has a process kill itself at the k-th operation on files while it writes
// the same pack repeatedly. Afterwards the directory holds no pack or a valid one, and
// opening it removes the leftovers.
func TestKilledWriter(t *testing.T) {
	s := large()
	if dir := os.Getenv(killDirectory); dir != "" {
		writeUntilKilled(s, dir)
	}
	sawTemporary, sawPack := false, false
	for _, k := range []int{0, 3, 8, 13, 34} {
		dir := t.TempDir()
		child := exec.Command(os.Args[0], "-test.run=^TestKilledWriter$")
		child.Env = append(os.Environ(), killDirectory+"="+dir, killAt+"="+strconv.Itoa(k))
		require.Error(t, child.Run())
		require.NotEqual(t, writeFailed, child.ProcessState.ExitCode())

		sawTemporary = sawTemporary || hasTemporary(t, dir)
		_, err := OpenCache(vfs.OS(), dir, 0)
		require.NoError(t, err)
		require.False(t, hasTemporary(t, dir))
		path := vfs.Join(dir, "m.pack")
		if _, err := vfs.OS().Stat(path); err == nil {
			sawPack = true
			f, err := Open(vfs.OS(), path)
			require.NoError(t, err)
			require.NoError(t, f.Verify(context.Background(), nil))
			require.NoError(t, f.Close())
		}
	}
	require.True(t, sawTemporary, "a temporary file was there to remove")
	require.True(t, sawPack, "a process died after a complete pack")
}

// writeUntilKilled writes a pack repeatedly until the process kills itself.
func writeUntilKilled(s *sample, dir string) {
	last, err := strconv.ParseInt(os.Getenv(killAt), 10, 64)
	if err != nil {
		os.Exit(writeFailed)
	}
	fsys := vfs.NewFaulty(vfs.OS(), func(op vfs.Op) error {
		if op.Index < last {
			return nil
		}
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		return err
	})
	for Write(fsys, vfs.Join(dir, "m.pack"), s.Contents, s.body) == nil {
	}
	os.Exit(writeFailed)
}

func hasTemporary(t *testing.T, dir string) bool {
	files, err := vfs.OS().ReadDir(dir)
	require.NoError(t, err)
	for _, f := range files {
		if strings.Contains(f.Name, vfs.TempMark) {
			return true
		}
	}
	return false
}
