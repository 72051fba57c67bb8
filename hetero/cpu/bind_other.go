//go:build !linux

package cpu

// bindThread does nothing: the system does not support pinning.
func bindThread(int) error { return nil }
