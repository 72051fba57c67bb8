package tiering

import (
	"time"

	"golang.org/x/sys/windows"
)

// ProcessorTime returns for how long the threads of this process have run; 0 if the system does not tell.
func ProcessorTime() time.Duration {
	var created, ended, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(windows.CurrentProcess(), &created, &ended, &kernel, &user); err != nil {
		return 0
	}
	ticks := func(f windows.Filetime) time.Duration {
		return time.Duration(int64(f.HighDateTime)<<32 | int64(f.LowDateTime))
	}
	return 100 * time.Nanosecond * (ticks(kernel) + ticks(user))
}
