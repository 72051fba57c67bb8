package allowance

import (
	"errors"
	"io/fs"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// on returns the allowance of a directory with a clock that the test sets.
func on(fsys vfs.FS, limit int64, at *time.Time) *Allowance {
	a := New(fsys, "cache", limit)
	a.now = func() time.Time { return *at }
	return a
}

func used(t *testing.T, a *Allowance) int64 {
	t.Helper()
	n, err := a.Used()
	require.NoError(t, err)
	return n
}

// TestLimitHoldsForADay takes up to the limit, is refused beyond it, and begins again on the
// next day.
func TestLimitHoldsForADay(t *testing.T) {
	at := time.Date(2026, 11, 26, 23, 0, 0, 0, time.UTC)
	a := on(vfs.NewMem(), 1000, &at)
	require.Zero(t, used(t, a))
	for range 10 {
		require.NoError(t, a.Take(99))
	}
	err := a.Take(11)
	require.ErrorIs(t, err, ErrSpent)
	require.ErrorContains(t, err, "990 bytes were written below cache on 2026-11-26 (UTC)")
	require.NoError(t, a.Take(10), "the rest of the day")
	require.EqualValues(t, 1000, used(t, a))
	require.ErrorIs(t, a.Take(1), ErrSpent)
	at = at.Add(time.Hour)
	require.Zero(t, used(t, a))
	require.NoError(t, a.Take(1000))
	require.NoError(t, a.Close())
	require.ErrorIs(t, on(vfs.NewMem(), 0, &at).Take(1), ErrSpent)
}

// TestProcessesShareALimit takes from several allowances of a directory at the same time:
// together they get the limit, to the byte, if each returns what it did not use.
func TestProcessesShareALimit(t *testing.T) {
	at := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
	fsys := vfs.NewMem()
	var mu sync.Mutex
	var total int64
	var processes sync.WaitGroup
	for range 4 {
		processes.Go(func() {
			for range 20 {
				a := on(fsys, 5000, &at)
				for range 5 {
					if err := a.Take(7); err == nil {
						mu.Lock()
						total += 7
						mu.Unlock()
					}
				}
				if err := a.Close(); err != nil {
					panic(err)
				}
			}
		})
	}
	processes.Wait()
	require.EqualValues(t, 4*20*5*7, total)
	a := on(fsys, 5000, &at)
	require.Equal(t, total, used(t, a))
	require.ErrorIs(t, a.Take(5000-total+1), ErrSpent)
	require.NoError(t, a.Take(5000-total))
}

// TestDamagedCounterIsRefused does not take a damaged count for an unused day.
func TestDamagedCounterIsRefused(t *testing.T) {
	at := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
	for _, text := range []string{"", "2026-11-26", "2026-11-26 -1\n", "2026-11-26 1\n\n", "2026-11-26 99999999999999999999\n", "x\x00"} {
		fsys := vfs.NewMem()
		require.NoError(t, fsys.MkdirAll("cache"))
		require.NoError(t, vfs.WriteFile(fsys, "cache/writes", []byte(text)))
		err := on(fsys, 5000, &at).Take(1)
		require.ErrorIs(t, err, store.ErrFormat, "%q", text)
		require.ErrorContains(t, err, "cache/writes")
	}
}

// TestFailedCountTakesNothing fails operation k, for every k: a Take that fails has counted
// nothing, or at least not too little.
func TestFailedCountTakesNothing(t *testing.T) {
	at := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
	broken := errors.New("broken")
	for k := 0; ; k++ {
		count, mem := 0, vfs.NewMem()
		a := on(vfs.NewFaulty(mem, func(op vfs.Op) error {
			if count++; count-1 == k {
				return broken
			}
			return nil
		}), 5000, &at)
		first := a.Take(100)
		if first != nil && !errors.Is(first, fs.ErrNotExist) {
			require.ErrorIs(t, first, broken)
		}
		failed := count > k
		count = 1 << 30
		require.NoError(t, a.Take(100))
		require.NoError(t, a.Close())
		require.GreaterOrEqual(t, used(t, on(mem, 5000, &at)), int64(100))
		if first == nil {
			require.GreaterOrEqual(t, used(t, on(mem, 5000, &at)), int64(200))
		}
		if !failed {
			return
		}
	}
}
