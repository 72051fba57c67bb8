//go:build !unix

package bench

import "time"

// ProcessorTime returns 0: this system is not supported.
func ProcessorTime() time.Duration { return 0 }
