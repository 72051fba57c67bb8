//go:build noasm || !(amd64 || arm64)

package tiering

// Prefetch does nothing on this architecture.
func Prefetch(uintptr, int) {}
