//go:build (amd64 || arm64) && !noasm

package threadpool

// pause executes the processor's spin-wait hint n times: it saves energy and
// leaves the core's other thread its share. n must be at least 1.
//
//go:noescape
func pause(n uint32)
