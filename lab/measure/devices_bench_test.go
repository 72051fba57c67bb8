package measure

import (
	"strings"
	"testing"

	"github.com/llmrun/llmrun/internal/deviceplan"
	"github.com/stretchr/testify/require"
)

// TestBenchDevices checks that the report compares balanced with uniform splits, and the ways to wait
// on every device.
func TestBenchDevices(t *testing.T) {
	o := DevicesOptions{Pair: devicePair()[:1], Slow: []int{3}, Rows: 512, Cols: 64, Tokens: []int{1, 4}, Repeats: 1}
	o.Pair = append(o.Pair, "cpu")
	r, err := BenchDevices(t.Context(), o)
	require.NoError(t, err)
	require.Len(t, r.Balance, 2)
	for _, b := range r.Balance {
		require.InDelta(t, 2, b.Expected, 0)
		require.InEpsilon(t, float64(b.Uniform/b.Balanced), b.Gain, 0.01)
		require.NotEmpty(t, b.Pieces)
	}
	require.Len(t, r.Sync, 2*len(deviceplan.Devices().Devices))
	var text strings.Builder
	r.WriteTables(&text)
	require.Contains(t, text.String(), "| 3× | 4 |")
}

// devicePair returns two devices of this machine: its groups of cores, or the CPU and a slowed CPU.
func devicePair() []string {
	if pair := deviceplan.Groups(deviceplan.Devices()); pair != nil {
		return pair
	}
	return []string{"cpu", "cpu/2"}
}
