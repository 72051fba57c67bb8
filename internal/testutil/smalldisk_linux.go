package testutil

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// smallDiskVariable names the directory of the small disk to a child process.
const smallDiskVariable = "LLMRUN_TEST_SMALL_DISK"

// OnSmallDisk runs a test in a child process that alone sees a tmpfs of the given size,
// which has the syntax of mount's option, such as 100k. It skips the test where the
// system does not allow that.
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
		t.Skip("the system allows no mount namespace")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if bytes.Contains(out, []byte("--- SKIP: ")) {
		t.Skip("the system allows no tmpfs in a mount namespace")
	}
	t.Logf("%s", out)
}
