//go:build !unix

package threadpool

import "time"

// ProcessorTime returns 0: this system is not supported.
func ProcessorTime() time.Duration { return 0 }
