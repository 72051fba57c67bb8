package threadpool

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// fastCores returns the number of physical cores of the fastest kind ("performance
// level 0" on Apple silicon), or of all physical cores on Macs with one kind.
func fastCores(_ fs.FS, fallback int) int {
	for _, name := range []string{"hw.perflevel0.physicalcpu", "hw.physicalcpu"} {
		if n, err := unix.SysctlUint32(name); err == nil && n > 0 {
			return int(n)
		}
	}
	return fallback
}
