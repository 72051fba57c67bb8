//go:build !linux

package vfs

import "time"

// systemQueue has no implementation on this system: NewReadQueue returns nil.
type systemQueue struct{}

func (*systemQueue) open(int) bool                              { return false }
func (*systemQueue) submit(*ReadQueue) int                      { return 0 }
func (*systemQueue) collectCompleted(*ReadQueue, time.Duration) {}
func (*systemQueue) close()                                     {}
