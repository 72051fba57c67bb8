//go:build !unix

package bench

import "time"

// processorTime is not known here.
func ProcessorTime() time.Duration { return 0 }
