package tiering

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestJoinPagesKeepsContents joins frames of odd sizes, one of them not filled.
// Contents and ledger must not change.
func TestJoinPagesKeepsContents(t *testing.T) {
	b := New(0)
	var frames []*Frame
	for i, n := range []int{3 * hugePage / 2, hugePage + 12345, 777, 2*hugePage - 1, 0, hugePage / 3} {
		f, err := Alloc(b, Pinned, n)
		require.NoError(t, err)
		for j := range f.Bytes() {
			f.Bytes()[j] = byte(i + j*j>>7)
		}
		frames = append(frames, f)
	}
	room, err := AllocRoom(b, Pinned, hugePage, 4*hugePage)
	require.NoError(t, err)
	frames = append(frames, room)
	used := b.Usage()
	JoinPages(frames)
	require.Equal(t, used, b.Usage())
	for i, f := range frames[:len(frames)-1] {
		for j, v := range f.Bytes() {
			if v != byte(i+j*j>>7) {
				t.Fatalf("byte %d of frame %d changed", j, i)
			}
		}
	}
	for _, f := range frames {
		f.Free()
	}
	require.NoError(t, b.Check())
}

func TestAdjacentFramesMakeOneRun(t *testing.T) {
	memory := make([]byte, 10<<12)
	frame := func(lo, hi, used int) *Frame {
		return &Frame{pages: memory[lo<<12 : hi<<12], lease: &Lease{bytes: int64(used << 12)}}
	}
	runs := adjacent([]*Frame{
		frame(5, 7, 2), frame(0, 1, 1), frame(3, 5, 2), frame(1, 2, 1),
		{lease: &Lease{}},
		frame(7, 9, 1), // has room to grow
		frame(9, 10, 1),
		{pages: memory[2<<12 : 3<<12], lease: &Lease{bytes: 1 << 12}, release: func() {}},
	})
	require.Len(t, runs, 3)
	for i, want := range [][2]int{{0, 2}, {3, 7}, {9, 10}} {
		require.Equal(t, address(memory)+uintptr(want[0]<<12), address(runs[i]))
		require.Len(t, runs[i], (want[1]-want[0])<<12)
	}
}

func TestInsideHuge(t *testing.T) {
	memory := make([]byte, 4*hugePage)
	start := int(-address(memory) % hugePage) // offset of the first huge page
	for _, c := range []struct{ lo, hi, pages int }{
		{0, hugePage, 1}, {1, hugePage, 0}, {1, 2 * hugePage, 1}, {0, 3*hugePage - 1, 2}, {1, 2, 0}, {0, 0, 0},
	} {
		inner := insideHuge(memory[start+c.lo : start+c.hi])
		require.Len(t, inner, c.pages*hugePage)
		if len(inner) > 0 {
			require.Zero(t, address(inner)%hugePage)
		}
	}
}
