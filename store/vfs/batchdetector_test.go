package vfs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// ask puts lots of some reads under way and returns their numbers, one for each read.
func (l *batchDetector) ask(reads ...int) (of []int) {
	for _, n := range reads {
		l.beginBatch()
		for range n {
			of = append(of, l.submitted())
		}
	}
	return of
}

func TestLotsThatEndTogether(t *testing.T) {
	l := newBatchDetector(16)
	require.False(t, l.batched(), "nothing is known yet")
	l.completed(l.ask(1, 3), true)
	require.True(t, l.batched(), "several lots at once")
	l = newBatchDetector(16)
	l.completed(l.ask(minBatch), true)
	require.True(t, l.batched(), "a large lot at once")
	for range 20 {
		l.completed(l.ask(minBatch), true)
	}
	for range maxScore {
		of := l.ask(4)
		l.completed(of[:1], false)
		l.completed(of[1:], false)
	}
	require.False(t, l.batched(), "parts of lots, which count against what was seen before, but not for ever")
}

func TestLotsThatSayNothing(t *testing.T) {
	l := newBatchDetector(16)
	l.completed(l.ask(1), true)
	l.completed(l.ask(minBatch-1), true)
	require.False(t, l.batched(), "a few reads may end at once")
	l.completed(l.ask(2, 5), false)
	require.False(t, l.batched(), "and all when nobody has looked for a while")
	first := l.ask(3)
	second := l.ask(3)
	l.completed(first, false)
	l.completed(second, true)
	require.False(t, l.batched())
	require.Zero(t, l.score)
	l.completed(nil, true)
	require.Zero(t, l.score)
}

// However often reads were seen to end one by one, a few that do not change that, and
// the other way round.
func TestLotsForget(t *testing.T) {
	l := newBatchDetector(8)
	for range 50 {
		of := l.ask(2)
		l.completed(of[:1], false)
		l.completed(of[1:], true)
	}
	require.False(t, l.batched())
	for range maxScore + 1 {
		l.completed(l.ask(8), true)
	}
	require.True(t, l.batched())
	for _, left := range l.inFlight {
		require.Zero(t, left)
	}
}
