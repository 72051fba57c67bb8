//go:build !noasm

package quant

import "golang.org/x/sys/windows"

// HasI8MM reports whether the processor has SMMLA and USDOT (FEAT_I8MM). Package cpu does not
// detect it on Windows. Older versions of Windows return false.
func HasI8MM() bool {
	return windows.IsProcessorFeaturePresent(windows.PF_ARM_V82_I8MM_INSTRUCTIONS_AVAILABLE)
}
