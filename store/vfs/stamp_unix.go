//go:build linux || darwin

package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

func stampOf(f *os.File) (s Stamp, ok bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return s, false, err
	}
	return Stamp{
		Size: st.Size, Modified: st.Mtim.Nano(), Changed: st.Ctim.Nano(),
		Device: uint64(st.Dev), Inode: st.Ino,
	}, true, nil
}
