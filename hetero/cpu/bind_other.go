//go:build !linux

package cpu

// bindThread leaves threads where the system puts them: it has no call for more.
func bindThread(int) error { return nil }
