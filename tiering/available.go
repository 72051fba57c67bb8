package tiering

import "math"

// margin is what is left to the system and to other programs of memory that is
// available: a sixteenth, but at least leastMargin.
const (
	marginDivisor = 16
	leastMargin   = 64 << 20
)

// Available returns how many bytes this process may sensibly take: what the
// system, and the container that it runs in, have to give, less a margin. It is 0
// where the system does not tell.
func Available() int64 {
	free := systemAvailable()
	if free <= 0 || free == math.MaxInt64 {
		return 0
	}
	return max(free-max(free/marginDivisor, leastMargin), free/2)
}
