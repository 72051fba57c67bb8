package kv

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// diskHelper tells a child process where its small disk is.
const diskHelper = "KV_TEST_SMALL_DISK"

// TestScratchLeavesRoom fills a file system of 12 MiB that only a child process sees:
// what others need to write is not taken, and what was refused is given back.
func TestScratchLeavesRoom(t *testing.T) {
	if dir := os.Getenv(diskHelper); dir != "" {
		fillScratch(t, dir)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("mounting a file system needs root")
	}
	child := exec.Command(os.Args[0], "-test.run=^TestScratchLeavesRoom$", "-test.v")
	child.Env = append(os.Environ(), diskHelper+"="+t.TempDir())
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	out, err := child.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("a name space of mounts is not allowed here")
	}
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
}

func fillScratch(t *testing.T, dir string) {
	require.NoError(t, syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=12m"); err != nil {
		t.Skipf("tmpfs cannot be mounted: %v", err)
	}
	s := NewScratch(vfs.OS(), dir, tiering.New(0))
	defer s.Close()
	page := make([]byte, 1<<20)
	var chunks int
	var err error
	for ; err == nil && chunks < 20; chunks++ {
		_, err = s.Spill(nil, 1, 1, func(int, int) []byte { return page })
	}
	require.ErrorContains(t, err, "no more room")
	require.Equal(t, 9, chunks, "eight of 1 MiB, and one that was refused")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "session"), page, 0o600))
}
