package llmrun_test

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

func TestTrim(t *testing.T) {
	ctx := context.Background()
	path := wide(t)
	options := llmrun.Options{Threads: 2, Context: 512, Memory: llmrun.MemoryOptions{Chunk: 48}}
	least := minimum(t, path, options)
	options.Memory.RAM = llmrun.NoLimit
	whole := open(t, path, options)
	s := newSession(t, whole)
	o := limit(12)
	o.IgnoreEOS = true
	ids := someIDs(whole, 100)
	want := complete(t, s.GenerateIDs(ctx, ids, o)).IDs
	require.NoError(t, s.Reset())
	full := held(whole)
	for _, level := range []llmrun.TrimLevel{llmrun.TrimModerate, llmrun.TrimLow, llmrun.TrimCritical, llmrun.TrimLow, llmrun.TrimNone} {
		for range 2 {
			require.NoError(t, whole.Trim(level))
			switch now := held(whole); level {
			case llmrun.TrimModerate:
				require.Less(t, now, full, "pages that no conversation uses go back")
			case llmrun.TrimLow:
				require.LessOrEqual(t, now, full*3/4)
			case llmrun.TrimCritical:
				require.LessOrEqual(t, now, least)
			}
			require.Equal(t, want, complete(t, s.GenerateIDs(ctx, ids, o)).IDs)
			require.NoError(t, s.Reset())
		}
	}
	require.Equal(t, full, held(whole), "all is back")

	// A ring goes down to what it cannot work without.
	options.Memory.RAM = least + (full-least)/2
	part := open(t, path, options)
	ring := part.Memory().Held["weight ring"]
	require.Positive(t, ring)
	require.NoError(t, part.Trim(llmrun.TrimModerate))
	require.LessOrEqual(t, part.Memory().Held["weight ring"], ring)
	require.NoError(t, part.Trim(llmrun.TrimCritical))
	require.LessOrEqual(t, held(part), least)
	require.NoError(t, part.SetBudget(options.Memory.RAM))
	require.Equal(t, ring, part.Memory().Held["weight ring"])
}

// TestWatchPressure plays signs of pressure, and a clock, to an engine.
func TestWatchPressure(t *testing.T) {
	ctx := context.Background()
	path := wide(t)
	options := llmrun.Options{Threads: 2, Context: 512, Memory: llmrun.MemoryOptions{Chunk: 48}}
	least := minimum(t, path, options)
	options.Memory.RAM = math.MaxInt32
	e := open(t, path, options)
	s := newSession(t, e)
	o := limit(8)
	o.IgnoreEOS = true
	ids := someIDs(e, 30)
	want := complete(t, s.GenerateIDs(ctx, ids, o)).IDs
	full := held(e)

	root := &changingFS{files: fstest.MapFS{}}
	now := time.Unix(0, 0)
	ticks := make(chan time.Time)
	stalled := 0
	tick := func(after time.Duration, pressure bool) {
		if now = now.Add(after); pressure {
			stalled += 1e6
		}
		root.set("proc/pressure/memory", fmt.Sprintf("some avg10=0.00 total=%d\n", stalled))
		ticks <- now
		// The tick was taken; Memory waits for what is done about it, if that has
		// begun, and another tick that says nothing new for it to have ended.
		ticks <- now.Add(time.Nanosecond)
	}
	e.Watch(root, ticks)
	tick(time.Second, false)
	require.Equal(t, full, held(e))
	last := full
	for range 30 {
		tick(time.Second, true)
		require.LessOrEqual(t, held(e), last)
		last = held(e)
	}
	require.LessOrEqual(t, last, least, "in the end only what is needed is left")
	require.NoError(t, s.Reset())
	require.Equal(t, want, complete(t, s.GenerateIDs(ctx, ids, o)).IDs)
	for range 30 {
		tick(time.Minute, false)
	}
	require.NoError(t, s.Reset())
	require.Equal(t, want, complete(t, s.GenerateIDs(ctx, ids, o)).IDs)
	require.Equal(t, full, held(e), "all is back")
	require.EqualValues(t, math.MaxInt32, e.Memory().Budget, "and no more than the owner's budget")
	require.NoError(t, e.Close())
	select {
	case ticks <- now:
		t.Fatal("somebody still watches")
	default:
	}
}

// changingFS is files that change while they are read.
type changingFS struct {
	mu    sync.Mutex
	files fstest.MapFS
}

func (c *changingFS) set(name, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files[name] = &fstest.MapFile{Data: []byte(text)}
}

func (c *changingFS) Open(name string) (fs.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.files.Open(name)
}
