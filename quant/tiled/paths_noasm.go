//go:build noasm || !(amd64 || arm64)

package tiled

// paths returns the paths that the build supports, fastest first.
func paths() []kernels { return []kernels{portable{}} }
