//go:build !noasm && !windows

package quant

import "golang.org/x/sys/cpu"

// HasI8MM reports whether the processor has SMMLA and USDOT (FEAT_I8MM).
func HasI8MM() bool { return cpu.ARM64.HasI8MM }
