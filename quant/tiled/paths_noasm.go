//go:build noasm || !(amd64 || arm64)

package tiled

// paths returns the paths that this machine has, best first.
func paths() []kernels { return []kernels{portable{}} }
