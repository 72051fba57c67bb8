package main

import (
	"os"
	"strconv"
	"syscall"
)

// leastPriority is the nice value of work that yields to everything else.
const leastPriority = 19

// beNice lowers the priority of the process. Linux has one for each thread; a new one takes it from the thread that
// starts it.
func beNice() error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return syscall.Setpriority(syscall.PRIO_PROCESS, 0, leastPriority)
	}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		if err := syscall.Setpriority(syscall.PRIO_PROCESS, id, leastPriority); err != nil && err != syscall.ESRCH { // it has ended
			return err
		}
	}
	return nil
}
