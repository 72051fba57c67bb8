//go:build !android

package devices

// vendorLibraries: nothing is known against a GPU and an NPU in one process here.
func vendorLibraries() string { return "" }
