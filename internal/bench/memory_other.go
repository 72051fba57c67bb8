//go:build !linux

package bench

// A memoryWatch measures nothing on these systems: the peak that they report includes the memory
// for measuring the limits.
type memoryWatch struct{ peak int64 }

func (*memoryWatch) begin() {}

func (*memoryWatch) sample() {}

func availableMemory() int64 { return 0 }

// residentMemory returns 0: unknown.
var residentMemory = func() int64 { return 0 }
