//go:build !(gpu || npu) || !linux

package devices

// ReleaseDriverMemory does nothing: there are no drivers, or the system has no function for it.
func ReleaseDriverMemory() {}
