//go:build (gpu || npu) && linux

package devices

import "github.com/ebitengine/purego"

// ReleaseDriverMemory returns the memory that drivers have freed to the system, if their allocator is
// that of the C library and can do so.
func ReleaseDriverMemory() {
	if trim, err := purego.Dlsym(purego.RTLD_DEFAULT, "malloc_trim"); err == nil && trim != 0 {
		purego.SyscallN(trim, 0)
	}
}
