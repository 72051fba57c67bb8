//go:build noasm || !(amd64 || arm64)

package threadpool

import "runtime"

// pause replaces the processor's spin-wait hint: it yields to other goroutines,
// which takes about as long.
func pause(uint32) { runtime.Gosched() }
