//go:build (amd64 || arm64) && !noasm

package hetero

// pause executes the processor's spin-wait hint n times: it saves energy and
// leaves the core's other thread its share. n must be at least 1.
//
//go:noescape
func pause(n uint32)

// prefetch asks for n bytes of memory to be brought into the second-level
// cache. The address need not be mapped. n must be a multiple of 64 above 0.
//
//go:noescape
func prefetch(address uintptr, n int)
