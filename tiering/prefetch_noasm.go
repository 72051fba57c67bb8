//go:build noasm || !(amd64 || arm64)

package tiering

// Prefetch does nothing here.
func Prefetch(uintptr, int) {}
