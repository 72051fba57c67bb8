package exec

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/tiering"
)

// newHeadPicks returns picks of so many heads for up to stride blocks.
func newHeadPicks(t *testing.T, heads, stride int) *headPicks {
	t.Helper()
	var p headPicks
	var probe tiering.Arena
	p.carve(&probe, heads, stride)
	frame, err := tiering.Alloc(tiering.New(0), tiering.Scratch, probe.Need())
	require.NoError(t, err)
	t.Cleanup(frame.Free)
	arena := tiering.NewArena(frame)
	p.carve(arena, heads, stride)
	require.NoError(t, arena.Err())
	p.makeLists(heads)
	return &p
}

// choose is a plain twin of headPicks.pick.
func choose(attention [][]float32 /* [head][block] */, need int) []byte {
	selected := make([]byte, len(attention[0]))
	n := 0
	best := func(h int) (at int) {
		at = -1
		for i, v := range attention[h] {
			if selected[i] == 0 && (at < 0 || v > attention[h][at]) {
				at = i
			}
		}
		return at
	}
	for h := range attention {
		for i, v := range attention[h] {
			if v != v && selected[i] == 0 {
				selected[i], n = 1, n+1
			}
		}
	}
	order := make([]int, len(attention))
	for h := range order {
		order[h] = h
	}
	if n < len(selected) {
		top := make([]float32, len(attention))
		for h := range top {
			top[h] = attention[h][best(h)]
		}
		slices.SortStableFunc(order, func(a, b int) int {
			switch {
			case top[a] > top[b]:
				return -1
			case top[a] < top[b]:
				return 1
			}
			return 0
		})
	}
	for need = min(need, len(selected)); n < need; {
		for _, h := range order {
			if n < need {
				selected[best(h)], n = 1, n+1
			}
		}
	}
	return selected
}

// TestHeadsPickInTurn compares the choices with those of the plain twin, for attention with many
// equal values and some blocks that are broken.
func TestHeadsPickInTurn(t *testing.T) {
	const stride = 150
	random := rand.New(rand.NewPCG(3, 8))
	for range 400 {
		heads, n := 1+random.IntN(9), 1+random.IntN(stride)
		p, attention := newHeadPicks(t, heads, stride), make([][]float32, heads)
		for h := range heads {
			for i := range n {
				v := float32(random.IntN(1<<(1+random.IntN(6)))) / 64
				if random.IntN(400) == 0 {
					v = float32(math.NaN())
				}
				p.row(h, n)[i] = v
				attention[h] = append(attention[h], v)
			}
		}
		for h := range heads {
			p.hasNaN[h] = p.updateGroups(h, n)
		}
		need, selected := random.IntN(n+3), make([]byte, n)
		want := choose(attention, need)
		got := p.pick(selected, heads, need)
		require.Equal(t, want, selected, "%d heads, %d of %d blocks", heads, need, n)
		marks := 0
		for _, m := range selected {
			marks += int(m)
		}
		require.Equal(t, marks, got)
	}
}

// TestDiffuseHeadGetsItsBlocks has a head whose attention is spread. A sum over heads would choose
// only blocks of the other heads.
func TestDiffuseHeadGetsItsBlocks(t *testing.T) {
	p := newHeadPicks(t, 3, 64)
	for i := range 64 {
		p.row(0, 64)[i] = 0.015 // of block 50 a little more
		p.row(1, 64)[i] = float32(max(0, 8-i)) / 36
		p.row(2, 64)[i] = float32(max(0, 8-i)) / 36
	}
	p.row(0, 64)[50] = 0.016
	for h := range 3 {
		require.False(t, p.updateGroups(h, 64))
	}
	selected := make([]byte, 64)
	require.Equal(t, 4, p.pick(selected, 3, 4))
	require.Equal(t, []byte{1, 1, 1}, []byte{selected[0], selected[1], selected[50]})
}
