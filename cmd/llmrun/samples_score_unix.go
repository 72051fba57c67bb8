//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// cancelChildren lets the end of a command's context end what the command has started, too.
func cancelChildren(run *exec.Cmd) {
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	run.Cancel = func() error {
		err := syscall.Kill(-run.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
}
