package hetero

import (
	"errors"
	"fmt"
)

// MemoryError is returned by Prepare and Attach where a device cannot address
// what it is asked to hold beside what it holds.
type MemoryError struct {
	Device            string
	Need, Held, Limit int64 // bytes
}

// Error names the device and the figures.
func (e *MemoryError) Error() string {
	return fmt.Sprintf("%s: %d bytes do not fit beside the %d of %d that it holds", e.Device, e.Need, e.Held, e.Limit)
}

// IsOutOfMemory reports whether an error is that a device has no memory for something.
func IsOutOfMemory(err error) bool {
	var small *MemoryError
	return errors.As(err, &small)
}
