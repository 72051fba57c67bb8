//go:build !linux

package vfs

import "time"

// clockStep is the longest step of the clocks of kernels other than Linux.
const clockStep = 16 * time.Millisecond

// changeTime returns the earliest time that a change of a file gets from now on, in nanoseconds since 1970.
func changeTime() int64 { return time.Now().Add(-clockStep).UnixNano() }
