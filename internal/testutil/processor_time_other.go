//go:build !unix

package testutil

import "time"

var begun = time.Now()

// processorTime returns the time of the clock, for systems without one for processors.
func processorTime() time.Duration { return time.Since(begun) }
