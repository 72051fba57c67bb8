package tiering

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// adopted returns a frame of pages with another owner, and the number of releases.
func adopted(t *testing.T, b *Budget, n int) (f *Frame, released *int) {
	size, err := pageRound(n + 3)
	require.NoError(t, err)
	pages, err := mapPages(size)
	require.NoError(t, err)
	for i := range pages {
		pages[i] = byte(i ^ i>>9)
	}
	released = new(int)
	f, err = Adopt(b, Mapped, pages[:n], n, func() { *released++; unmapPages(pages) })
	require.NoError(t, err)
	return f, released
}

// TestPromoteMovesPages checks that the new frame has the contents of the adopted
// one, that the steps cover all of it, and that the lease moves to the new frame.
func TestPromoteMovesPages(t *testing.T) {
	for _, n := range []int{0, 1, 5000, PromoteStep - 1, 2*PromoteStep + 12345} {
		b := New(0)
		old, released := adopted(t, b, n)
		want := append([]byte(nil), old.Bytes()...)
		var copied, most int
		f, err := Promote(old, Pinned, n+hugePage, func(dst, src []byte) {
			most = max(most, len(src))
			copied += copy(dst, src)
		})
		require.NoError(t, err)
		require.Equal(t, n, copied)
		require.LessOrEqual(t, most, PromoteStep)
		require.True(t, string(want) == string(f.Bytes()))
		size, err := pageRound(n)
		require.NoError(t, err)
		u := b.Usage()
		require.Zero(t, u.By[Mapped])
		require.EqualValues(t, size, u.By[Pinned])
		require.EqualValues(t, size, u.Total)
		require.LessOrEqual(t, u.TotalPeak, int64(n)+PromoteNeeds())

		require.NoError(t, f.Resize(n+hugePage), "there is room")
		old.Free()
		f.Free()
		require.Equal(t, 1, *released)
		require.NoError(t, b.Check())
		require.Zero(t, b.Usage().Total)
	}
}

// TestFailedPromoteChangesNothing checks that nothing changes without room in the
// budget or if copying panics.
func TestFailedPromoteChangesNothing(t *testing.T) {
	const n = PromoteStep + 777
	b := New(n + PromoteNeeds() - 1)
	old, released := adopted(t, b, n)
	before := b.Usage()
	_, err := Promote(old, Pinned, n, func(dst, src []byte) { copy(dst, src) })
	require.ErrorIs(t, err, ErrBudget)
	require.Equal(t, before, b.Usage())

	b.SetLimit(n + PromoteNeeds())
	fault := errors.New("fault")
	steps := 0
	require.PanicsWithValue(t, fault, func() {
		_, _ = Promote(old, Pinned, n, func(dst, src []byte) {
			if steps++; steps == 2 {
				panic(fault)
			}
			copy(dst, src)
		})
	})
	require.Equal(t, 2, steps)
	require.Equal(t, before.By, b.Usage().By)
	require.Len(t, old.Bytes(), n)
	require.Zero(t, *released)
	old.Free()
	require.NoError(t, b.Check())
}
