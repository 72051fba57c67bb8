package devices

// vendorLibraries names the conflict between GPU and NPU drivers in one process on
// Android: the library search path that one vendor's OpenCL needs is reported to
// break the same vendor's NPU.
func vendorLibraries() string { return "libraries of the phone's vendor" }
