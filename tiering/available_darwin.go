package tiering

import "golang.org/x/sys/unix"

// systemAvailable returns three quarters of the machine's memory. macOS has no stable
// interface for the memory in use, and it compresses unused memory.
func systemAvailable() int64 {
	total, err := unix.SysctlUint64("hw.memsize")
	if err != nil || total > 1<<62 {
		return 0
	}
	return int64(total / 4 * 3)
}
