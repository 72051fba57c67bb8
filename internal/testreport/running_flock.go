//go:build linux || darwin

package main

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// hold waits until the tests of a call may run. Calls of a check may run side by side, except one that runs a test
// again: it runs alone.
func (d recordDir) hold(alone bool) (release func(), err error) {
	if d == "" {
		return func() {}, nil
	}
	file, err := os.OpenFile(filepath.Join(string(d), "running"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	kind := syscall.LOCK_SH
	if alone {
		kind = syscall.LOCK_EX
	}
	for {
		switch err := syscall.Flock(int(file.Fd()), kind); {
		case err == nil:
			return func() { _ = file.Close() }, nil // which releases the lock
		case !errors.Is(err, syscall.EINTR):
			_ = file.Close()
			return nil, &os.PathError{Op: "lock", Path: file.Name(), Err: err}
		}
	}
}
