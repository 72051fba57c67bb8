package devices

// vendorLibraries is why a GPU's and an NPU's driver do not share a process on
// Android: the search path for libraries that one vendor's OpenCL needs is
// reported to break the same vendor's NPU.
func vendorLibraries() string { return "libraries of the phone's vendor" }
