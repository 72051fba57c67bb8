//go:build linux || darwin

package vfs

import (
	"math"

	"golang.org/x/sys/unix"
)

// diskFree returns the space that is available to unprivileged users.
func diskFree(dir string) (int64, bool) {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return 0, false
	}
	block := int64(s.Bsize)
	if block <= 0 || s.Bavail > math.MaxInt64/uint64(block) {
		return 0, false
	}
	return int64(s.Bavail) * block, true
}
