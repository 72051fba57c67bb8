//go:build noasm || !(amd64 || arm64)

package threadpool

import "runtime"

// pause stands in for the processor's spin-wait hint: it lets other goroutines
// run, which also takes about as long.
func pause(uint32) { runtime.Gosched() }
