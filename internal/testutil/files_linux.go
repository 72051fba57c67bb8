package testutil

import "os"

// OpenFiles returns the number of open files of this process.
func OpenFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}
