package tiering

import (
	"io/fs"
	"strconv"
	"strings"
	"time"
)

// ReadProcessorTime returns for how long the threads of this process have run. The files of Linux are in
// root; it is 0 on systems that do not tell.
func ReadProcessorTime(root fs.FS) (ran time.Duration) {
	names, err := fs.Glob(root, "proc/self/task/*/schedstat")
	if err != nil {
		return 0
	}
	for _, name := range names {
		on, _, _ := strings.Cut(readText(root, name), " ") // no text if the thread has just ended
		if n, err := strconv.ParseInt(on, 10, 64); err == nil {
			ran += time.Duration(n)
		}
	}
	return ran
}
