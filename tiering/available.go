package tiering

import "math"

// Available leaves a margin to the system and to other programs: one part in
// marginDivisor of the available memory, at least leastMargin.
const (
	marginDivisor = 16
	leastMargin   = 64 << 20
)

// Available returns the memory that this process should use at most: what the system
// and the process's container provide, minus a margin. It is 0 if the system does not
// report it.
func Available() int64 {
	free := systemAvailable()
	if free <= 0 || free == math.MaxInt64 {
		return 0
	}
	return max(free-max(free/marginDivisor, leastMargin), free/2)
}
