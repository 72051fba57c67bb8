//go:build !noasm

package tiled

import "golang.org/x/sys/windows"

// hasI8MM asks the system, since package cpu does not. Versions that do not know the
// feature say that it is missing.
func hasI8MM() bool {
	return windows.IsProcessorFeaturePresent(windows.PF_ARM_V82_I8MM_INSTRUCTIONS_AVAILABLE)
}
