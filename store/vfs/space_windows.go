package vfs

import (
	"math"

	"golang.org/x/sys/windows"
)

// diskFree returns the space that is available to this user.
func diskFree(dir string) (int64, bool) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, false
	}
	var free uint64
	if windows.GetDiskFreeSpaceEx(name, &free, nil, nil) != nil || free > math.MaxInt64 {
		return 0, false
	}
	return int64(free), true
}
