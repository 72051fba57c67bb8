//go:build !noasm && !windows

package tiled

import "golang.org/x/sys/cpu"

// hasI8MM reports whether the processor multiplies small matrices of bytes.
func hasI8MM() bool { return cpu.ARM64.HasI8MM }
