package llmrun_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

func TestParseDiskSpeed(t *testing.T) {
	for text, want := range map[string]llmrun.DiskSpeed{
		"1GB/s":               {BytesPerSecond: 1e9},
		"500MB/s,100us":       {BytesPerSecond: 5e8, Latency: 100 * time.Microsecond},
		" 1.5GiB/s , 2ms":     {BytesPerSecond: 3 << 29, Latency: 2 * time.Millisecond},
		"1GB":                 {},
		"50%/s":               {},
		"fast/s":              {},
		"1GB/s,100":           {},
		"1GB/s,-1us":          {},
		"1GB/s,100us,another": {},
		"":                    {},
	} {
		got, err := llmrun.ParseDiskSpeed(text)
		require.Equal(t, want, got, text)
		if want == (llmrun.DiskSpeed{}) {
			require.ErrorIs(t, err, llmrun.ErrOptions, text)
		} else {
			require.NoError(t, err, text)
		}
	}
	_, err := llmrun.Open("x", llmrun.Options{Lab: llmrun.LabOptions{Disk: llmrun.DiskSpeed{Latency: -1}}})
	require.ErrorIs(t, err, llmrun.ErrOptions)
}

// TestSlowDisk streams a model from a throttled disk. The answer does not change, and decode
// takes at least the time of the reads.
func TestSlowDisk(t *testing.T) {
	path := wide(t)
	options := llmrun.Options{Threads: 2, Context: 256, Memory: llmrun.MemoryOptions{Chunk: 16}}
	options.Memory.RAM = minimum(t, path, options)
	fast, slow := open(t, path, options), options
	slow.Lab.Disk = llmrun.DiskSpeed{BytesPerSecond: 400e6, Latency: 50 * time.Microsecond}
	e := open(t, path, slow)
	ctx := context.Background()
	o := limit(6)
	o.IgnoreEOS = true
	want := complete(t, newSession(t, fast).GenerateIDs(ctx, someIDs(fast, 20), o)).IDs
	s := newSession(t, e)
	require.Equal(t, want, complete(t, s.GenerateIDs(ctx, someIDs(e, 20), o)).IDs)
	got := s.Stats()
	require.Positive(t, got.DecodeFlash.Bytes)
	ahead := float64(e.Memory().Held["weight ring"]) // was prefetched
	least := (float64(got.DecodeFlash.Bytes) - ahead) / 400e6
	require.GreaterOrEqual(t, got.Decode.Seconds(), least)
}

// TestCloseWhileStreaming closes an engine during generations that wait for a throttled disk.
// It must release all resources.
func TestCloseWhileStreaming(t *testing.T) {
	path := wide(t)
	options := llmrun.Options{Threads: 2, Context: 256, Memory: llmrun.MemoryOptions{Chunk: 16, WatchPressure: true}}
	options.Memory.RAM = minimum(t, path, options)
	options.Lab.Disk = llmrun.DiskSpeed{BytesPerSecond: 20e6, Latency: time.Millisecond}
	before := testutil.CountResources(path)
	for range 3 {
		e, err := llmrun.Open(path, options)
		require.NoError(t, err)
		reading := make(chan struct{}, 2)
		ended := make(chan error, 2)
		for range 2 {
			s, err := e.NewSession()
			require.NoError(t, err)
			go func() {
				o := limit(math.MaxInt32)
				o.IgnoreEOS = true
				o.OnPrefill = func(int, int) {
					select {
					case reading <- struct{}{}:
					default:
					}
				}
				ended <- collect(s.GenerateIDs(context.Background(), someIDs(e, 100), o)).err
			}()
		}
		<-reading
		require.NoError(t, e.Close())
		require.ErrorIs(t, <-ended, llmrun.ErrClosed)
		require.ErrorIs(t, <-ended, llmrun.ErrClosed)
		require.NoError(t, e.CheckMemory())
	}
	before.RequireReturned(t, "closed engines leave nothing")
}
