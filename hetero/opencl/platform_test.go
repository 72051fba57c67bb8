package opencl

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChoosePrefersIndexes(t *testing.T) {
	list := []Info{{Index: 0, Name: "NVIDIA H200"}, {Index: 1, Name: "Mali"}, {Index: 2, Name: "pocl"}}
	for name, want := range map[string]int{"": 0, "2": 2, "1": 1, "opencl-2": 2, "200": 0, "mali": 1} {
		info, err := selectDevice(list, name)
		require.NoError(t, err, name)
		require.Equal(t, want, info.Index, name)
	}
	_, err := selectDevice(list, "opencl-3")
	require.ErrorIs(t, err, ErrNoDevice)
}

func TestNoDeviceErrorSuggestsAFix(t *testing.T) {
	require.ErrorIs(t, noDevice(nil), ErrNoDriver)
	require.NotContains(t, noDevice([]string{"Portable Computing Language"}).Error(), "rusticl")
	err := noDevice([]string{"Clover", "rusticl"})
	require.ErrorIs(t, err, ErrNoDriver)
	require.ErrorContains(t, err, "RUSTICL_ENABLE")
}
