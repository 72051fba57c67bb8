//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly && !windows

package vfs

import "os"

// lockFile refuses: this system has no locks that end with the process.
func lockFile(*os.File) error { return errNoLocks }
