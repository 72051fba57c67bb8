package pack

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store/vfs"
)

// killHelper is set in the process that TestKilledWriter starts, to the directory to write
// to.
const killHelper = "LLMRUN_TEST_PACK_DIR"

// TestKilledWriter kills a process that writes the same pack repeatedly, at several
// moments. Afterwards the directory holds no pack or a valid one, and opening it removes
// the leftovers.
func TestKilledWriter(t *testing.T) {
	s := large()
	if dir := os.Getenv(killHelper); dir != "" {
		os.Stdout.WriteString("begun\n")
		for {
			if err := Write(vfs.OS(), vfs.Join(dir, "m.pack"), s.Contents, s.body); err != nil {
				os.Exit(1)
			}
		}
	}
	sawTemporary := false
	for k := range 6 {
		dir := t.TempDir()
		child := exec.Command(os.Args[0], "-test.run=^TestKilledWriter$")
		child.Env = append(os.Environ(), killHelper+"="+dir)
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		_, err = bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		time.Sleep(time.Duration(k*k) * 3 * time.Millisecond)
		require.NoError(t, child.Process.Kill())
		_ = child.Wait()

		sawTemporary = sawTemporary || hasTemporary(t, dir)
		_, err = OpenCache(vfs.OS(), dir, 0)
		require.NoError(t, err)
		require.False(t, hasTemporary(t, dir))
		path := vfs.Join(dir, "m.pack")
		if _, err := vfs.OS().Stat(path); err == nil {
			f, err := Open(vfs.OS(), path)
			require.NoError(t, err)
			require.NoError(t, f.Verify(context.Background(), nil))
			require.NoError(t, f.Close())
		}
	}
	t.Logf("a temporary file was there to remove: %v", sawTemporary)
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
