package vfs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// ask puts lots of some reads under way and returns their numbers, one for each read.
func (l *lots) ask(reads ...int) (of []int) {
	for _, n := range reads {
		l.next()
		for range n {
			of = append(of, l.asked())
		}
	}
	return of
}

func TestLotsThatEndTogether(t *testing.T) {
	l := newLots(16)
	require.False(t, l.together(), "nothing is known yet")
	l.ended(l.ask(1, 3), true)
	require.True(t, l.together(), "several lots at once")
	l = newLots(16)
	l.ended(l.ask(lotLeast), true)
	require.True(t, l.together(), "a large lot at once")
	for range 20 {
		l.ended(l.ask(lotLeast), true)
	}
	for range seenMost {
		of := l.ask(4)
		l.ended(of[:1], false)
		l.ended(of[1:], false)
	}
	require.False(t, l.together(), "parts of lots, which count against what was seen before, but not for ever")
}

func TestLotsThatSayNothing(t *testing.T) {
	l := newLots(16)
	l.ended(l.ask(1), true)
	l.ended(l.ask(lotLeast-1), true)
	require.False(t, l.together(), "a few reads may end at once")
	l.ended(l.ask(2, 5), false)
	require.False(t, l.together(), "and all when nobody has looked for a while")
	first := l.ask(3)
	second := l.ask(3)
	l.ended(first, false)
	l.ended(second, true)
	require.False(t, l.together())
	require.Zero(t, l.seen)
	l.ended(nil, true)
	require.Zero(t, l.seen)
}

// However often reads were seen to end one by one, a few that do not change that, and
// the other way round.
func TestLotsForget(t *testing.T) {
	l := newLots(8)
	for range 50 {
		of := l.ask(2)
		l.ended(of[:1], false)
		l.ended(of[1:], true)
	}
	require.False(t, l.together())
	for range seenMost + 1 {
		l.ended(l.ask(8), true)
	}
	require.True(t, l.together())
	for _, left := range l.left {
		require.Zero(t, left)
	}
}
