//go:build (amd64 || arm64) && !noasm

package threadpool

// pause executes the processor's spin-wait hint n times, which saves energy and
// leaves execution slots to the core's other thread. n must be at least 1.
//
//go:noescape
func pause(n uint32)
