//go:build !linux

package vfs

import "time"

// sleep waits as exactly as time.Sleep does.
func sleep(d time.Duration) { time.Sleep(d) }
