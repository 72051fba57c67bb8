package tiering

import "golang.org/x/sys/unix"

// systemAvailable returns three quarters of the machine's memory: macOS does not
// say in a stable way how much is in use, and compresses what is not.
func systemAvailable() int64 {
	total, err := unix.SysctlUint64("hw.memsize")
	if err != nil || total > 1<<62 {
		return 0
	}
	return int64(total / 4 * 3)
}
