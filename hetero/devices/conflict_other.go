//go:build !android

package devices

// vendorLibraries returns "": no conflict of GPU and NPU drivers is known here.
func vendorLibraries() string { return "" }
