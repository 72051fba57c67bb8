package testutil

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// smallDiskVariable is the environment variable that passes the mount point to the
// child process.
const smallDiskVariable = "LLMRUN_TEST_SMALL_DISK"

// OnSmallDisk runs a test in a child process with a private tmpfs of the given size.
// The size has the syntax of the mount option, such as 100k. OnSmallDisk skips the test
// if the system does not permit the mount.
func OnSmallDisk(t *testing.T, size string, test func(dir string)) {
	t.Helper()
	if dir := os.Getenv(smallDiskVariable); dir != "" {
		switch err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); {
		case errors.Is(err, syscall.EINVAL): // a mount below could reach the rest of the system
			t.Skipf("/ is no mount point, as in a chroot, and cannot be private: %v", err)
		case errors.Is(err, syscall.EPERM):
			t.Skipf("the system does not permit a private /: %v", err)
		case err != nil:
			t.Fatal(err)
		}
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
			t.Skipf("cannot mount a tmpfs: %v", err)
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
		t.Skip("the system does not permit mount namespaces")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if bytes.Contains(out, []byte("--- SKIP: ")) {
		t.Skipf("no tmpfs in a mount namespace here:\n%s", out)
	}
	t.Logf("%s", out)
}
