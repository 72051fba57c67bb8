package tiering

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// newBudget checks at the end of the test that every lease was released.
func newBudget(t testing.TB, limit int64) *Budget {
	b := New(limit)
	t.Cleanup(func() { require.NoError(t, b.Check()) })
	return b
}

func TestReserveUpdatesUsage(t *testing.T) {
	b := newBudget(t, 100)
	weights, err := b.Reserve(Pinned, 60)
	require.NoError(t, err)
	scratch, err := b.Reserve(Scratch, 40)
	require.NoError(t, err)
	require.EqualValues(t, 40, scratch.Bytes())
	scratch.Release()
	again, err := b.Reserve(Scratch, 10)
	require.NoError(t, err)

	u := b.Usage()
	require.EqualValues(t, 70, u.Total)
	require.EqualValues(t, 100, u.TotalPeak)
	require.EqualValues(t, 10, u.By[Scratch])
	require.EqualValues(t, 40, u.Peak[Scratch])
	require.Equal(t, "pinned weights 60 B, scratch 10 B", u.String())
	again.Release()
	weights.Release()
	require.Equal(t, "nothing", b.Usage().String())
}

func TestReserveRefuses(t *testing.T) {
	b := newBudget(t, 1000)
	held, err := b.Reserve(KVHot, 900)
	require.NoError(t, err)
	defer held.Release()

	for _, n := range []int64{101, 1000, math.MaxInt64} {
		_, err := b.Reserve(Scratch, n)
		require.ErrorIs(t, err, ErrBudget)
		var refused *BudgetError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, BudgetError{Purpose: Scratch, Requested: n, Used: b.Usage(), Limit: 1000}, *refused)
		require.ErrorContains(t, err, "100 B of 1000 B are free (in use: kv hot 900 B)")
	}
	_, err = b.Reserve(Scratch, -1)
	require.ErrorContains(t, err, "-1 bytes")
	_, err = b.Reserve(purposes, 1)
	require.ErrorContains(t, err, fmt.Sprintf("purpose(%d)", purposes))
	require.EqualValues(t, 900, b.Usage().Total, "a refusal changes nothing")
}

func TestUnlimitedBudgetDoesNotOverflow(t *testing.T) {
	b := newBudget(t, 0)
	require.Zero(t, b.Limit())
	held, err := b.Reserve(Heap, math.MaxInt64)
	require.NoError(t, err)
	_, err = b.Reserve(Heap, 1)
	require.ErrorIs(t, err, ErrBudget)
	held.Release()
	require.EqualValues(t, 7, New(7).Limit())
}

func TestReleaseTwicePanics(t *testing.T) {
	b := newBudget(t, 10)
	lease, err := b.Reserve(Ring, 3)
	require.NoError(t, err)
	lease.Release()
	require.PanicsWithValue(t, "tiering: a lease of 3 bytes (weight ring) was released twice", lease.Release)
	require.Zero(t, b.Usage().Total)
}

func TestCheckNamesUnreleasedLeases(t *testing.T) {
	b := New(10)
	empty, err := b.Reserve(Code, 0)
	require.NoError(t, err)
	require.ErrorContains(t, b.Check(), "1 leases")
	lease, err := b.Reserve(Mapped, 4)
	require.NoError(t, err)
	require.ErrorContains(t, b.Check(), "mapped files 4 B")
	empty.Release()
	lease.Release()
	require.NoError(t, b.Check())
}

// TestBudgetHoldsUnderConcurrency checks that the granted leases never exceed the
// limit when many goroutines reserve and release in any order, and that the ledger
// agrees with the goroutines' own count.
func TestBudgetHoldsUnderConcurrency(t *testing.T) {
	const limit, goroutines, steps = 10_000, 8, 2_000
	b := newBudget(t, limit)
	var granted struct {
		sync.Mutex
		now, peak int64
	}
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(g)))
			var held []*Lease
			// The count decreases before the ledger and increases after it, so it is
			// never too high.
			release := func(lease *Lease) {
				granted.Lock()
				granted.now -= lease.Bytes()
				granted.Unlock()
				lease.Release()
			}
			for range steps {
				if len(held) > 0 && rng.IntN(2) == 0 {
					i := rng.IntN(len(held))
					release(held[i])
					held[i] = held[len(held)-1]
					held = held[:len(held)-1]
					continue
				}
				lease, err := b.Reserve(Purpose(rng.IntN(int(purposes))), rng.Int64N(limit/4))
				if err != nil {
					continue
				}
				held = append(held, lease)
				granted.Lock()
				granted.now += lease.Bytes()
				granted.peak = max(granted.peak, granted.now)
				granted.Unlock()
			}
			for _, lease := range held {
				release(lease)
			}
		})
	}
	wg.Wait()
	u := b.Usage()
	require.LessOrEqual(t, granted.peak, int64(limit))
	require.LessOrEqual(t, u.TotalPeak, int64(limit))
	require.Greater(t, u.TotalPeak, int64(limit/2), "the test must come near the limit")
	require.Equal(t, [purposes]int64{}, u.By)
}
