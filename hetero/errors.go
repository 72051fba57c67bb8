package hetero

import (
	"errors"
	"fmt"
)

// MemoryError reports that Prepare or Attach would exceed the memory that a device can
// address.
type MemoryError struct {
	Device            string
	Need, Held, Limit int64 // bytes
}

// Error names the device and the sizes.
func (e *MemoryError) Error() string {
	return fmt.Sprintf("%s: cannot hold %d bytes more: %d of %d are in use", e.Device, e.Need, e.Held, e.Limit)
}

// IsOutOfMemory reports whether err states that a device has no memory left.
func IsOutOfMemory(err error) bool {
	var small *MemoryError
	return errors.As(err, &small)
}
