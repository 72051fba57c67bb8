package tiering

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPlanHasRoomForDriver plans a model beside the driver of a device. The driver takes its memory from
// the budget; a peak while it compiles only matters if it is more than the model takes later. The
// stated minimum suffices, and a byte less does not.
func TestPlanHasRoomForDriver(t *testing.T) {
	need := Need{Budget: 1 << 30, Context: 1024, Code: 12 * mib, Heap: 40 * mib, Opening: 30 * mib}
	without := makePlan(t, denseShape(), need)
	need.Driver = 100 * mib
	with := makePlan(t, denseShape(), need)
	require.EqualValues(t, 100*mib, with.By[Driver])
	require.Less(t, with.PinnedBytes(), without.PinnedBytes())
	require.LessOrEqual(t, with.Total(), need.Budget)

	least := func(peak int64) int64 {
		need.DriverPeak, need.Budget = peak, 1
		_, err := MakePlan(denseShape(), need, rates)
		var refused *MinimumError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, refused.Minimum, refused.By.Total())
		for _, more := range []int64{0, -1} {
			need.Budget = refused.Minimum + more
			_, err := MakePlan(denseShape(), need, rates)
			require.Equal(t, more == 0, err == nil, "%v", err)
		}
		return refused.Minimum
	}
	low := least(0)
	require.Equal(t, low, least(low-42*mib))
	require.Equal(t, low+1, least(low-42*mib+1))
	require.EqualValues(t, 1042*mib, least(1000*mib))
}
