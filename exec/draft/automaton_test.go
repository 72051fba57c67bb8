package draft

import (
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/tiering"
)

func newAutomaton(t testing.TB, capacity int) *Automaton {
	l, err := NewAutomaton(tiering.New(0), capacity)
	require.NoError(t, err)
	t.Cleanup(l.Close)
	return l
}

// longestRepeat returns the length of the longest end of a text that occurs before.
func longestRepeat(text []int32) (longest int) {
	for end := 1; end < len(text); end++ { // the occurrence ends before text[end]
		n := 0
		for n < end && text[end-1-n] == text[len(text)-1-n] {
			n++
		}
		longest = max(longest, n)
	}
	return longest
}

// TestAutomatonFindsLongestRepeat compares each match with a search of the whole text, and each draft
// with what follows an occurrence of the match.
func TestAutomatonFindsLongestRepeat(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, vocabulary := range []int32{1, 2, 3, 20} {
		l := newAutomaton(t, 400)
		for range 300 {
			l.Append(r.Int32N(vocabulary))
			text := l.Text()
			ids, match := l.Draft(nil, 5)
			require.Equal(t, longestRepeat(text), match)
			if match == 0 {
				require.Empty(t, ids)
				continue
			}
			require.True(t, follows(text, match, ids), "%v: %v behind %d tokens", text, ids, match)
		}
	}
}

// follows reports whether ids followed an earlier occurrence of the last n tokens. Behind the end of
// the text it follows itself.
func follows(text []int32, n int, ids []int32) bool {
	long := append(append([]int32{}, text...), ids...)
	for end := n; end < len(text); end++ {
		same := true
		for i := range n {
			same = same && text[end-1-i] == text[len(text)-1-i]
		}
		for i, id := range ids {
			same = same && long[end+i] == id
		}
		if same {
			return true
		}
	}
	return false
}

// TestAutomatonForgets appends more than fits: the newer half at least stays known.
func TestAutomatonForgets(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	l := newAutomaton(t, 64)
	var all []int32
	for range 1000 {
		id := r.Int32N(5)
		all = append(all, id)
		l.Append(id)
		text := l.Text()
		require.GreaterOrEqual(t, len(text), min(len(all), 32))
		require.Equal(t, all[len(all)-len(text):], text)
		_, match := l.Draft(nil, 1)
		require.Equal(t, longestRepeat(text), match)
	}
	l.Append(all...)
	require.Equal(t, all[len(all)-32:], l.Text()[len(l.Text())-32:])
}

// TestAutomatonUsesLatestOccurrence checks which of several occurrences a draft continues.
func TestAutomatonUsesLatestOccurrence(t *testing.T) {
	l := newAutomaton(t, 64)
	l.Append(1, 2, 3, 9, 1, 2, 4, 8, 1, 2)
	ids, match := l.Draft(nil, 3)
	require.Equal(t, 2, match)
	require.Equal(t, []int32{4, 8, 1}, ids)
}

func TestAutomatonAllocatesNothing(t *testing.T) {
	l := newAutomaton(t, 512)
	dst := make([]int32, 0, 16)
	next := int32(0)
	require.Zero(t, testutil.AllocsPerRun(2000, 0, func() {
		next = next*7 + 3&63
		l.Append(next % 11)
		dst, _ = l.Draft(dst[:0], 16)
	}))
}

func TestAutomatonMemory(t *testing.T) {
	budget := tiering.New(0)
	l, err := NewAutomaton(budget, 1000)
	require.NoError(t, err)
	require.LessOrEqual(t, AutomatonMemory().At(1000), int64(110*1000))
	require.LessOrEqual(t, budget.Usage().Total, AutomatonMemory().At(1000)+int64(os.Getpagesize()))
	for n := range 10_000 {
		require.LessOrEqual(t, automatonBytes(n), AutomatonMemory().At(n), "%d tokens", n)
	}
	l.Close()
	_, err = NewAutomaton(tiering.New(1000), 1000)
	require.ErrorAs(t, err, new(*tiering.BudgetError))
}
