package testutil

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// smallDiskVariable tells a child process where its small disk is.
const smallDiskVariable = "LLMRUN_TEST_SMALL_DISK"

// OnSmallDisk runs a test in a child process, which alone sees a file system of a size as
// mount has it, such as 100k. It skips where that is not allowed.
func OnSmallDisk(t *testing.T, size string, test func(dir string)) {
	t.Helper()
	if dir := os.Getenv(smallDiskVariable); dir != "" {
		if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
			t.Skipf("tmpfs cannot be mounted: %v", err)
		}
		test(dir)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("mounting a file system needs root")
	}
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), smallDiskVariable+"="+t.TempDir())
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	out, err := child.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("a name space of mounts is not allowed here")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
