//go:build unix && !linux

package main

import "syscall"

// beNice lowers the priority of the process.
func beNice() error { return syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19) }
