//go:build !noasm

package tiled

import "golang.org/x/sys/windows"

// hasI8MM reports whether the processor has SMMLA (FEAT_I8MM). Package cpu does not
// detect it on Windows. Older versions of Windows return false.
func hasI8MM() bool {
	return windows.IsProcessorFeaturePresent(windows.PF_ARM_V82_I8MM_INSTRUCTIONS_AVAILABLE)
}
