package chunk

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store/vfs"
)

// TestDiskOfAFewPages fills a file system of 100 KiB that only a child process
// sees: what does not fit is refused before it is written, and what is there stays.
func TestDiskOfAFewPages(t *testing.T) {
	if base := os.Getenv(killHelper); base != "" {
		fillDisk(t, base)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("mounting a file system needs root")
	}
	child := exec.Command(os.Args[0], "-test.run=^TestDiskOfAFewPages$", "-test.v")
	child.Env = append(os.Environ(), killHelper+"="+t.TempDir())
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	out, err := child.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("a name space of mounts is not allowed here")
	}
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
}

func fillDisk(t *testing.T, base string) {
	require.NoError(t, syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
	if err := syscall.Mount("tmpfs", base, "tmpfs", 0, "size=100k"); err != nil {
		t.Skipf("tmpfs cannot be mounted: %v", err)
	}
	s := openStore(t, vfs.Sub(vfs.OS(), base), 1<<30)
	s.dir.spare = -1 << 30 // nobody looks before: the disk itself has to refuse
	a := text(1, 16*12)
	m, err := keep(s, a, 4, true)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, "allocate")
	require.NotEmpty(t, m.Chunks)
	require.Empty(t, filesIn(t, s.dir.fsys, "cache/kv", vfs.TempMark))
	require.Equal(t, m.Kept(), found(t, s, a))
	_, _, err = s.dir.Clean()
	require.NoError(t, err)
	require.Equal(t, 16, mustKeep(t, s, a[:16], 4).Kept(), "there is room again")
	require.Equal(t, 16, found(t, s, a))
}
