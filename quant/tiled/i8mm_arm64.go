//go:build !noasm && !windows

package tiled

import "golang.org/x/sys/cpu"

// hasI8MM reports whether the processor has SMMLA (FEAT_I8MM).
func hasI8MM() bool { return cpu.ARM64.HasI8MM }
