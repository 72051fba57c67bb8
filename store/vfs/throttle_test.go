package vfs

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// fakeDevice is a device on a fake clock.
func fakeDevice(bytesPerSecond int64, latency time.Duration) *Device {
	d := NewDevice(bytesPerSecond, latency)
	d.pause = time.Sleep
	return d
}

// TestThrottle runs on a fake clock, so that the times are exact.
func TestThrottle(t *testing.T) {
	for _, c := range []struct {
		name    string
		rate    int64
		latency time.Duration
		readers int
		want    time.Duration // for 4 reads of 1000 bytes by each reader
	}{
		{"rate", 1000, 0, 1, 4 * time.Second},
		{"latency", 0, time.Second, 1, 4 * time.Second},
		{"both", 1000, time.Second, 1, 8 * time.Second},
		{"readers share the rate", 1000, 0, 3, 12 * time.Second},
		{"readers overlap the latency", 0, time.Second, 3, 4 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := NewMem()
				require.NoError(t, WriteFile(mem, "f", make([]byte, 1000)))
				fsys := fakeDevice(c.rate, c.latency).Throttle(mem)
				start := time.Now()
				var readers sync.WaitGroup
				for range c.readers {
					readers.Go(func() { readFourTimes(t, fsys) })
				}
				readers.Wait()
				require.Equal(t, c.want, time.Since(start))
			})
		})
	}
}

func readFourTimes(t *testing.T, fsys FS) {
	f, err := fsys.Open("f")
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	for range 4 {
		if _, err := f.ReadAt(make([]byte, 1000), 0); err != nil {
			t.Error(err)
		}
	}
}

// TestThrottledFilesShareADevice checks that two file systems of a device share its bus.
func TestThrottledFilesShareADevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		device := fakeDevice(1000, 0)
		start := time.Now()
		var readers sync.WaitGroup
		for range 2 {
			mem := NewMem()
			require.NoError(t, WriteFile(mem, "f", make([]byte, 1000)))
			readers.Go(func() { readFourTimes(t, device.Throttle(mem)) })
		}
		readers.Wait()
		require.Equal(t, 8*time.Second, time.Since(start))
	})
}

func TestThrottledWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		require.NoError(t, WriteFile(fakeDevice(100, 0).Throttle(NewMem()), "f", make([]byte, 500)))
		require.Equal(t, 5*time.Second, time.Since(start))
	})
}

func TestFaultySeesOperations(t *testing.T) {
	var ops []Op
	fsys := NewFaulty(NewMem(), func(op Op) error {
		ops = append(ops, op)
		return nil
	})
	f := create(t, fsys, "f", "data")
	_, err := f.ReadAt(make([]byte, 2), 1)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(1))
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
	require.NoError(t, fsys.Rename("f", "g"))
	require.Equal(t, []Op{
		{OpCreate, "f", -1, 0, 0},
		{OpWrite, "f", 0, 4, 1},
		{OpRead, "f", 1, 2, 2},
		{OpTruncate, "f", 1, 0, 3},
		{OpSync, "f", -1, 0, 4},
		{OpClose, "f", -1, 0, 5},
		{OpRename, "g", -1, 0, 6},
	}, ops)
}
