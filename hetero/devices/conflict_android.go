package devices

// vendorLibraries returns the name of the conflict between GPU and NPU drivers in one
// process on Android. Reports say that the library search path that a vendor's OpenCL
// needs breaks the NPU driver of the same vendor.
func vendorLibraries() string { return "libraries of the phone's vendor" }
