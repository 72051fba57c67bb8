package draft

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/tiering"
)

// TestOthersFollowTheEnd compares the other continuations of random texts with a search: each leaves the guesses at one of
// them, and what follows there follows an earlier occurrence of the token before. No two are alike.
func TestOthersFollowTheEnd(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	l := newAutomaton(t, 200)
	lists, depths := [][]int32{make([]int32, 0, 6), make([]int32, 0, 6)}, [6]int{}
	often := func(match int) float64 { return 1 - 0.5/float64(match) }
	for range 1000 {
		l.Append(r.Int32N(6))
		text := l.Text()
		guesses, match := l.Draft(nil, 6)
		if match == 0 {
			continue
		}
		others := l.others(lists[:0], MaxBranches, 6, guesses, often)
		seen := map[[2]int32]bool{}
		for _, ids := range others {
			depth := CommonPrefix(ids, guesses)
			require.Less(t, depth, len(ids))
			leaves := [2]int32{int32(depth), ids[depth]}
			require.False(t, seen[leaves], "%v begins as another one", ids)
			seen[leaves] = true
			require.True(t, follows(slices.Concat(text, ids[:depth]), 1, ids[depth:]), "%v: %v", text, ids)
			require.LessOrEqual(t, len(ids), 6)
			depths[depth]++
		}
	}
	require.Greater(t, depths[0], 500)
	require.Greater(t, depths[1]+depths[2]+depths[3], 50)
}

// TestOthersLeaveLikelyGuesses has a text in which the guess is right twice of three times, and another token follows later
// ones: where the first guesses are right nearly always, branches begin behind them.
func TestOthersLeaveLikelyGuesses(t *testing.T) {
	l := newAutomaton(t, 64)
	l.Append(1, 2, 3, 4, 9, 9, 1, 2, 3, 5, 8, 8, 7, 2, 6, 1, 2, 3, 4, 0, 1, 2)
	guesses, _ := l.Draft(nil, 3)
	require.Equal(t, []int32{3, 4, 0}, guesses)
	lists := [][]int32{make([]int32, 0, 3), make([]int32, 0, 3)}
	sure := func(match int) float64 { return []float64{0, 0.2, 0.8}[min(match, 2)] }
	require.Equal(t, [][]int32{{3, 5, 8}, {3, 4, 9}}, l.others(lists[:0], 2, 3, guesses, sure))
	unsure := func(match int) float64 { return 0.1 }
	require.Equal(t, [][]int32{{6, 1, 2}}, l.others(lists[:0], 1, 3, guesses, unsure))
}

// TestBranchesPay offers branches where they are cheap or asked for, stops where none is kept, and begins again later.
func TestBranchesPay(t *testing.T) {
	l, err := NewLookup(tiering.New(0), 100)
	require.NoError(t, err)
	defer l.Close()
	require.NoError(t, l.Begin(nil, []int32{1, 2, 5, 1, 2, 4, 1, 2, 3, 1, 2}))
	offers := func(slope float64, all bool) int {
		p := NewPasses(Growth{More: slope}, false)
		r := &Request{Most: 4, Always: true, Passes: &p, MostBranches: MaxBranches, AllBranches: all, Branches: make([][]int32, MaxBranches)}
		guesses, err := l.Draft(context.Background(), nil, r)
		require.NoError(t, err)
		require.Equal(t, []int32{3, 1, 2, 3}, guesses)
		for i, ids := range r.Branches {
			require.Equal(t, [][]int32{{4, 1, 2, 3}, {5, 1, 2, 4}}[i], ids)
		}
		return len(r.Branches)
	}
	require.Equal(t, MaxBranches, offers(0, false))
	require.Zero(t, offers(0.2, false), "they take too long")
	require.Equal(t, MaxBranches, offers(0.2, true))
	require.Equal(t, 1, offers(0.004, false))
	offered := 0
	for range 400 {
		offered += offers(0.004, false)
		l.BranchKept(-1, 0)
	}
	require.Less(t, offered, 100, "none was kept")
	require.Greater(t, offered, 10, "it tries again")
	for range 50 {
		offers(0, true)
		l.BranchKept(1, 2)
	}
	require.Greater(t, l.branches.gain[1], l.branches.gain[0])
}
