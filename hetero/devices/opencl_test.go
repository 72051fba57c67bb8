//go:build gpu

package devices

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/cpu"
	"github.com/llmrun/llmrun/hetero/opencl"
)

// TestBrokenDevicesAreNamed checks that the list includes a device that cannot be
// opened.
func TestBrokenDevicesAreNamed(t *testing.T) {
	broken := errors.New("out of order")
	list := []opencl.Info{{Index: 0, Name: "good"}, {Index: 1, Name: "bad"}}
	found, err := openable(list, func(o opencl.Options) (hetero.Device, error) {
		if o.Device == "1" {
			return nil, broken
		}
		return cpu.New(cpu.Options{Threads: 1})
	})
	require.Len(t, found, 1)
	require.Equal(t, "opencl-0", found[0].Name)
	require.ErrorIs(t, err, broken)
	require.EqualError(t, err, "bad: out of order")
}
