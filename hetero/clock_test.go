package hetero

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lateClock wakes sleepers late, with increasing delays.
type lateClock struct{ now, late time.Duration }

func (c *lateClock) Now() time.Duration { return c.now }

func (c *lateClock) Sleep(d time.Duration) {
	c.late += 10 * time.Microsecond
	c.now += d + c.late
}

// endAt is work that ends at a time of the clock.
type endAt struct {
	clock *lateClock
	end   time.Duration
}

func (t endAt) Done() bool  { t.clock.now += time.Microsecond; return t.clock.now >= t.end }
func (t endAt) Wait() error { return nil }

func TestGrainIsTheLatestWakeUp(t *testing.T) {
	c := &lateClock{}
	require.Equal(t, grainSleeps*10*time.Microsecond, Grain(c))
	require.Positive(t, Grain(Wall()))
}

// TestAwait checks that no sleep is shorter than the grain and that a sleep that
// cannot be short enough is replaced by polling.
func TestAwait(t *testing.T) {
	for _, c := range []struct {
		predicted, grain, want time.Duration
	}{
		{1000, 100, 1000},
		{1000, 600, 1000},                // too coarse to sleep at all
		{500, 100, 1000},                 // early: polls
		{2000, 100, 2000 - 100 + 10 + 1}, // late: sleeps too long
		{0, 100, 1000},                   // nothing was predicted
		{1000, 5, 1000 - 5 + 10 + 1},     // overslept: the real grain is larger
	} {
		clock := &lateClock{}
		require.NoError(t, Await(clock, endAt{clock, 1000 * time.Microsecond}, c.predicted*time.Microsecond, c.grain*time.Microsecond))
		require.Equal(t, c.want*time.Microsecond, clock.now, "%+v", c)
	}
}
