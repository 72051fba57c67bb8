package tiering

import (
	"math"
	"os"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	SetInvariants(true)
	os.Exit(m.Run())
}

func alloc(t testing.TB, b *Budget, n int) *Frame {
	f, err := Alloc(b, Scratch, n)
	require.NoError(t, err)
	return f
}

func TestFrame(t *testing.T) {
	page := os.Getpagesize()
	for _, n := range []int{0, 1, 4, page - 1, page, page + 1, hugePage, 3*hugePage + 5} {
		b := newBudget(t, 0)
		f := alloc(t, b, n)
		got := f.Bytes()
		require.Len(t, got, n)
		require.Equal(t, n, cap(got), "the rest of the page is not accessible")
		require.Len(t, f.Floats(), n/4)
		charged := b.Usage().By[Scratch]
		require.GreaterOrEqual(t, charged, int64(n))
		require.Less(t, charged, int64(n+page))
		if n > 0 {
			require.Zero(t, uintptr(unsafe.Pointer(&got[0]))%uintptr(page))
			require.Zero(t, got[0]|got[n/2]|got[n-1], "fresh memory is zero")
			got[0], got[n-1] = 1, 2
		}
		f.Free()
		require.Nil(t, f.Bytes())
		require.Zero(t, b.Usage().Total)
	}
}

// TestAllocForReads checks that a large buffer begins at a huge page and is charged
// with its size only.
func TestAllocForReads(t *testing.T) {
	page := os.Getpagesize()
	for _, n := range []int{0, 1, hugePage - 1, hugePage, 3*hugePage + 5} {
		b := newBudget(t, 0)
		f, err := AllocForReads(b, Ring, n)
		require.NoError(t, err)
		got := f.Bytes()
		require.Len(t, got, n)
		require.Less(t, b.Usage().By[Ring], int64(n+page))
		for i := range got {
			got[i] = 1
		}
		if runtime.GOOS == "linux" && n >= hugePage {
			require.Zero(t, address(got)%hugePage)
		}
		f.Free()
		require.Zero(t, b.Usage().Total)
	}
	_, err := AllocForReads(newBudget(t, hugePage), Ring, 2*hugePage)
	require.ErrorIs(t, err, ErrBudget)
	_, err = AllocForReads(newBudget(t, 0), Ring, math.MaxInt)
	require.ErrorContains(t, err, "invalid frame size")
}

func TestAllocRefuses(t *testing.T) {
	b := newBudget(t, int64(os.Getpagesize()))
	_, err := Alloc(b, KVHot, os.Getpagesize()+1)
	require.ErrorIs(t, err, ErrBudget)
	require.ErrorContains(t, err, "kv hot")
	for _, n := range []int{-1, math.MaxInt} {
		_, err = Alloc(b, KVHot, n)
		require.ErrorContains(t, err, "invalid frame size")
	}
	// Larger than any address space: the lease must be released.
	unlimited := newBudget(t, 0)
	_, err = Alloc(unlimited, KVHot, math.MaxInt/2)
	require.ErrorContains(t, err, "kv hot")
	require.NotErrorIs(t, err, ErrBudget)
}

func TestFreeTwicePanics(t *testing.T) {
	f := alloc(t, newBudget(t, 0), 8)
	f.Free()
	require.Panics(t, f.Free)
}

func TestView(t *testing.T) {
	f := alloc(t, newBudget(t, 0), 64)
	defer f.Free()
	f.Floats()[1] = 1
	words, err := View[uint32](f.Bytes(), 16)
	require.NoError(t, err)
	require.Equal(t, math.Float32bits(1), words[1])
	bytes, err := View[int8](f.Bytes()[3:], 61)
	require.NoError(t, err)
	require.Len(t, bytes, 61)

	_, err = View[float32](f.Bytes(), 17)
	require.ErrorContains(t, err, "do not fit")
	_, err = View[float64](f.Bytes(), -1)
	require.ErrorContains(t, err, "do not fit")
	_, err = View[float32](f.Bytes()[2:], 1)
	require.ErrorContains(t, err, "not aligned")
	none, err := View[float64](nil, 0)
	require.NoError(t, err)
	require.Empty(t, none)
}

// carve takes the buffers of a forward pass.
func carve(a *Arena) (x []float32, q []int8, ids []int32, raw []byte) {
	return a.Floats(5), a.Int8s(65), a.Int32s(1), a.Bytes(0)
}

func TestArenaMeasuresThenHandsOut(t *testing.T) {
	var probe Arena
	x, _, _, _ := carve(&probe)
	require.Nil(t, x)
	require.NoError(t, probe.Err())
	require.Equal(t, 64+128+64, probe.Need())

	f := alloc(t, newBudget(t, 0), probe.Need())
	defer f.Free()
	a := NewArena(f)
	x, q, ids, raw := carve(a)
	require.NoError(t, a.Err())
	require.Equal(t, []int{5, 65, 1, 0}, []int{len(x), len(q), len(ids), len(raw)})
	require.Equal(t, 5, cap(x), "appending must not reach the neighbour")
	for i, p := range []unsafe.Pointer{unsafe.Pointer(&x[0]), unsafe.Pointer(&q[0]), unsafe.Pointer(&ids[0])} {
		require.Zero(t, uintptr(p)%arenaAlign, "slice %d", i)
	}
	x[4], q[64], ids[0] = 1, 2, 3
	require.Equal(t, float32(1), x[4], "slices do not overlap")

	require.Nil(t, a.Floats(1))
	require.ErrorContains(t, a.Err(), "arena of 256 bytes is too small: 320 are needed")
	a.Reset()
	require.NoError(t, a.Err())
	require.True(t, math.IsNaN(float64(a.Floats(5)[4])), "reset memory is poisoned in tests")
}

func TestArenaOverlay(t *testing.T) {
	var before, small, large, after []float32
	carve := func(a *Arena) {
		before = a.Floats(16)
		a.Overlay(func() { small = a.Floats(16) }, func() { large = a.Floats(32) }, func() {})
		after = a.Floats(16)
	}
	var probe Arena
	carve(&probe)
	require.Equal(t, 4*64, probe.Need())
	f := alloc(t, newBudget(t, 0), probe.Need())
	defer f.Free()
	a := NewArena(f)
	carve(a)
	require.NoError(t, a.Err())
	require.Same(t, &small[0], &large[0])
	before[15], large[0], large[31], after[0] = 1, 2, 3, 4
	require.Equal(t, []float32{1, 2, 3, 4}, []float32{before[15], small[0], large[31], after[0]})
}

func TestArenaRefusesImpossibleSizes(t *testing.T) {
	for _, n := range []int{-1, math.MaxInt, math.MaxInt / 4} {
		var a Arena
		require.Nil(t, a.Floats(n))
		require.ErrorContains(t, a.Err(), "cannot hold")
	}
	empty := alloc(t, newBudget(t, 0), 0)
	defer empty.Free()
	a := NewArena(empty)
	require.Nil(t, a.Floats(1))
	require.ErrorContains(t, a.Err(), "too small", "an empty frame is not a probe")
}

func TestFrameGrowsAndShrinksInItsPlace(t *testing.T) {
	page := os.Getpagesize()
	b := newBudget(t, int64(6*page))
	f, err := AllocRoom(b, Pinned, 2*page, 10*page)
	require.NoError(t, err)
	defer f.Free()
	require.EqualValues(t, 2*page, b.Usage().By[Pinned], "only the bytes in use are charged")
	first := &f.Bytes()[0]
	f.Bytes()[2*page-1] = 7

	require.NoError(t, f.Resize(5*page+1))
	require.Len(t, f.Bytes(), 5*page+1)
	require.Same(t, first, &f.Bytes()[0])
	require.EqualValues(t, 7, f.Bytes()[2*page-1])
	f.Bytes()[5*page] = 8
	require.EqualValues(t, 6*page, b.Usage().By[Pinned])

	require.ErrorIs(t, f.Resize(7*page), ErrBudget)
	require.ErrorContains(t, f.Resize(11*page), "room")
	require.ErrorContains(t, f.Resize(-1), "invalid frame size")
	require.Len(t, f.Bytes(), 5*page+1, "a refusal changes nothing")

	require.NoError(t, f.Resize(page))
	require.EqualValues(t, page, b.Usage().Total)
	require.EqualValues(t, 6*page, b.Usage().Peak[Pinned])
	require.NoError(t, f.Resize(0))
	require.NoError(t, f.Resize(3*page))
	require.Len(t, f.Bytes(), 3*page)

	_, err = AllocRoom(b, Pinned, 7*page, 7*page)
	require.ErrorIs(t, err, ErrBudget)
	none, err := AllocRoom(b, Pinned, 0, 0)
	require.NoError(t, err)
	none.Free()
}

func TestLimitChanges(t *testing.T) {
	b := newBudget(t, 100)
	held, err := b.Reserve(Ring, 80)
	require.NoError(t, err)
	b.SetLimit(50)
	require.EqualValues(t, 50, b.Limit())
	require.False(t, b.TrySetLimit(79))
	require.EqualValues(t, 50, b.Limit(), "a refusal changes nothing")
	require.True(t, b.TrySetLimit(80))
	b.SetLimit(50)
	_, err = b.Reserve(Ring, 1)
	require.ErrorIs(t, err, ErrBudget)
	held.Release()
	held, err = b.Reserve(Ring, 50)
	require.NoError(t, err)
	held.Release()
	b.SetLimit(0)
	require.Zero(t, b.Limit())
}

func TestAdoptedPagesAreNeverWritten(t *testing.T) {
	page := os.Getpagesize()
	b := newBudget(t, int64(3*page))
	other := alloc(t, New(0), 4*page)
	defer other.Free()
	pages, released := other.Bytes()[:3*page+100], 0
	pages[5], pages[2*page] = 1, 2
	f, err := Adopt(b, Mapped, pages, page, func() { released++ })
	require.NoError(t, err)
	require.NoError(t, f.Resize(2*page+1))
	require.EqualValues(t, []byte{1, 2}, []byte{f.Bytes()[5], f.Bytes()[2*page]})
	require.EqualValues(t, 3*page, b.Usage().By[Mapped])
	require.ErrorIs(t, f.Resize(3*page+100), ErrBudget)
	f.Free()
	require.Equal(t, 1, released)
	require.EqualValues(t, 1, pages[5])
	_, err = Adopt(b, Mapped, pages, 4*page, func() {})
	require.ErrorContains(t, err, "room")
}
