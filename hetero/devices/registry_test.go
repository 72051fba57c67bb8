package devices

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/tiering"
)

// fake returns a provider of one device that counts its queries.
func fake(name, clash string, missing error, queries *int) *Provider {
	return &Provider{Name: name, Kind: hetero.GPU, Tag: "fake", Conflict: clash, Find: func() ([]Found, error) {
		*queries++
		if missing != nil {
			return nil, missing
		}
		return []Found{{Name: name, Capabilities: hetero.Capabilities{Kind: hetero.GPU}}}, nil
	}}
}

// TestAll checks that the CPU is always listed and that every driver is available or
// has a reason.
func TestAll(t *testing.T) {
	list := All.List()
	require.Equal(t, "cpu", list[0].Found[0].Name)
	names := map[string]bool{}
	for _, l := range list {
		require.True(t, len(l.Found) > 0 || l.Missing != nil, l.Provider)
		for _, f := range l.Found {
			require.False(t, names[f.Name], f.Name)
			names[f.Name] = true
			budget := tiering.New(0)
			d, err := All.Open(f.Name, Options{Budget: budget})
			require.NoError(t, err)
			require.Equal(t, f.Capabilities, d.Capabilities())
			require.NoError(t, d.Close())
			require.NoError(t, budget.Check())
		}
	}
}

// TestKindsAreResolved checks that a kind selects its first device and that any other
// name selects itself.
func TestKindsAreResolved(t *testing.T) {
	queries := 0
	r := New(fake("driver", "", nil, &queries))
	name, err := r.Resolve("gpu")
	require.NoError(t, err)
	require.Equal(t, "driver", name)
	_, err = r.Resolve("npu")
	require.ErrorContains(t, err, "NPU")
	name, err = r.Resolve("opencl-7")
	require.NoError(t, err)
	require.Equal(t, "opencl-7", name)
	require.Equal(t, 1, queries)
}

func TestSlowProcessors(t *testing.T) {
	d, err := All.Open("cpu/4", Options{})
	require.NoError(t, err)
	require.Contains(t, d.Capabilities().Name, "made 4 times slower")
	require.NoError(t, d.Close())
	for _, name := range []string{"cpu/0", "cpu/x", "cpu/65", "cpu/"} {
		_, err := All.Open(name, Options{})
		require.ErrorContains(t, err, "factor after / must be 1 to 64")
	}
	queries := 0
	_, err = New(fake("gpu", "", nil, &queries)).Open("gpu/2", Options{})
	require.ErrorIs(t, err, ErrSlow)
	driver := fake("driver", "", nil, &queries)
	driver.Find = func() ([]Found, error) {
		return []Found{{Name: "driver", Capabilities: hetero.Capabilities{Kind: hetero.CPU}}}, nil
	}
	_, err = New(driver).Open("driver/2", Options{})
	require.ErrorIs(t, err, ErrSlow, "a driver's device cannot be slowed down")
}

// TestConflictingDrivers checks that only one of two conflicting drivers is loaded:
// the requested one or the first. A missing driver does not exclude the other one.
func TestConflictingDrivers(t *testing.T) {
	var one, two, none int
	absent := errors.New("no library")
	r := New(fake("none", "phone", absent, &none), fake("one", "phone", nil, &one), fake("two", "phone", nil, &two))
	for range 2 {
		list := r.List()
		require.ErrorIs(t, list[0].Missing, absent)
		require.Len(t, list[1].Found, 1)
		require.ErrorIs(t, list[2].Missing, ErrConflict)
		require.ErrorContains(t, list[2].Missing, "two and one cannot share a process (phone)")
	}
	require.Equal(t, []int{1, 1, 0}, []int{none, one, two}, "each is queried at most once, and never two of them")

	r = New(fake("one", "phone", nil, &one), fake("two", "phone", nil, &two), fake("free", "", nil, &none))
	_, err := r.find("two")
	require.NoError(t, err)
	_, err = r.find("one")
	require.ErrorIs(t, err, ErrConflict)
	_, err = r.find("free")
	require.NoError(t, err)
	require.Equal(t, []int{1, 1}, []int{one, two})
}

func TestUnknownDevices(t *testing.T) {
	r := New(processor(), &Provider{Name: "opencl", Tag: "gpu"})
	_, err := r.Open("opencl-2", Options{})
	require.EqualError(t, err, `device "opencl-2": not in this build: build with -tags gpu`)
	_, err = r.Open("abacus", Options{})
	require.ErrorIs(t, err, ErrUnknown)
	require.ErrorContains(t, err, "available: cpu")
}

// TestHalvesCoverAllThreads checks that both halves together have all threads.
func TestHalvesCoverAllThreads(t *testing.T) {
	require.Equal(t, threadpool.DefaultThreads(), HostThreads("cpu-a")+HostThreads("cpu-b/4"))
	for _, device := range []string{"cpu", "cpu/2", "cpu-slow", "opencl-0", "gpu"} {
		require.Zero(t, HostThreads(device), device)
	}
}

// TestLoadsDriver checks which names load a driver: those of its kind, and names that are no kind. Asking
// loads none.
func TestLoadsDriver(t *testing.T) {
	queries := 0
	r := New(processor(), fake("driver", "", nil, &queries))
	for name, want := range map[string]bool{"gpu": true, "npu": false, "driver-0": true, "other": true} {
		require.Equal(t, want, r.Loads(name), name)
	}
	absent := New(processor(), &Provider{Name: "driver", Kind: hetero.GPU, Tag: "fake"})
	require.False(t, absent.Loads("gpu"))
	require.False(t, absent.Loads("driver-0"))
	require.Zero(t, queries)
}
