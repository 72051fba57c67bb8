package draft

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/tiering"
)

// TestLengthsFollowWhatIsRight feeds outcomes of guesses: where all are right, as many as allowed are
// verified; where none is, none, until the rule tries again much later.
func TestLengthsFollowWhatIsRight(t *testing.T) {
	l, p := lengths{right: firstRight}, NewPasses(Growth{0, 0.1}, false)
	for range 50 {
		l.verified(8, 16, 16)
	}
	require.Equal(t, 16, l.best(&p, 8, 16))
	for range 50 {
		l.verified(8, 4, 0)
	}
	require.Zero(t, l.best(&p, 8, 16))
	require.Positive(t, l.best(&p, 20, 16), "other lengths of matches are not affected")
	tries := 0
	for l.best(&p, 8, 16) == 0 {
		tries++
		require.Less(t, tries, 2000)
	}
	require.Greater(t, tries, 20)
}

// TestLengthsFollowCosts measures passes: guesses that cost almost nothing pay at a low chance, and
// guesses that cost as much as a pass do not, nor do those that take long to make.
func TestLengthsFollowCosts(t *testing.T) {
	l, cheap, dear := lengths{right: firstRight}, NewPasses(Growth{0, 0.1}, false), NewPasses(Growth{0, 0.1}, false)
	for range 50 {
		for _, p := range []*Passes{&cheap, &dear} {
			p.Took(1, 100*time.Millisecond, 0)
		}
		cheap.Took(9, 101*time.Millisecond, 0)
		dear.Took(9, 900*time.Millisecond, 0)
	}
	require.Greater(t, l.best(&cheap, 2, 16), 2)
	require.Zero(t, l.best(&dear, 2, 16))
	require.Zero(t, l.best(&cheap, 0, 16), "there is no match")
	half := func(int) float64 { return 0.5 }
	require.Positive(t, cheap.Best(16, 0.01, half))
	require.Zero(t, cheap.Best(16, 0.1, half))
}

// TestLookupRemembersPrompts begins answers behind prompts that share a beginning, which is remembered once.
func TestLookupRemembersPrompts(t *testing.T) {
	l, err := NewLookup(tiering.New(0), 100)
	require.NoError(t, err)
	defer l.Close()
	require.Equal(t, LookupName, l.Name())
	p := NewPasses(Growth{0, 0}, false)
	r := &Request{Most: 3, Always: true, Passes: &p}
	require.NoError(t, l.Begin(nil, []int32{1, 2, 3, 4, 1, 2}))
	ids, err := l.Draft(context.Background(), []int32{7}, r)
	require.NoError(t, err)
	require.Equal(t, []int32{7, 3, 4, 1}, ids, "guesses are appended")
	l.Accepted(3)
	require.NoError(t, l.Begin([]int32{1, 2, 3, 4, 1, 2, 3}, []int32{1, 2, 3, 4, 1, 2, 3, 9, 1, 2, 3}))
	require.Equal(t, []int32{1, 2, 3, 4, 1, 2, 3, 9, 1, 2, 3}, l.text.Text())
	ids, err = l.Draft(context.Background(), nil, r)
	require.NoError(t, err)
	require.Equal(t, []int32{9, 1, 2}, ids)

	for range 100 {
		l.Verified(3, 0)
	}
	p = NewPasses(Growth{0, 1}, false)
	r.Always = false
	ids, err = l.Draft(context.Background(), nil, r)
	require.NoError(t, err)
	require.Empty(t, ids, "guesses that were wrong do not pay")
}

// TestFirstPassTellsWhatGuessesCost measures one pass: where most of its time was waiting for flash, guesses that are seldom
// right pay, until computing takes as long as reading; where it did not wait, they do not pay.
func TestFirstPassTellsWhatGuessesCost(t *testing.T) {
	computing := Growth{Step: 1.2, More: 0.2}
	seldom := func(i int) float64 { return min(0.7, 0.1+0.2*float64(i)) }
	for _, tokens := range []int{1, 3, 17} {
		waits, busy := NewPasses(computing, true), NewPasses(computing, true)
		require.Positive(t, busy.Best(16, 0, seldom), "nothing is known yet")
		computes := time.Duration(computing.Of(tokens) * float64(4*time.Millisecond))
		waits.Took(tokens, 200*time.Millisecond+computes/10, 200*time.Millisecond-computes*9/10)
		busy.Took(tokens, computes, 0)
		require.Greater(t, waits.Best(16, 0, seldom), 8, "%d tokens", tokens)
		require.Zero(t, busy.Best(16, 0, seldom), "%d tokens", tokens)
		require.InDelta(t, 0.2, waits.time(1), 0.001)
		require.InDelta(t, 0.004, busy.time(1), 1e-6)
		require.InDelta(t, 0.004*computing.Of(9), busy.time(9), 1e-6)
		require.True(t, waits.Measured())
	}
	short := NewPasses(computing, true) // reading takes as long as computing eight tokens
	short.Took(1, 10400*time.Microsecond, 6400*time.Microsecond)
	require.InDelta(t, 4*computing.Of(17)+1, 1e3*short.time(17), 0.01)
}

// TestPassesLearnSteps measures passes that take a step and a slope, with a wrong expectation of both.
func TestPassesLearnSteps(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, p := range []Passes{NewPasses(Growth{0, 0}, false), NewPasses(Growth{3, 2}, false)} {
		for range 600 {
			tokens := 1 + r.IntN(9)
			took := 10 * time.Millisecond
			if tokens > 1 {
				took += 12*time.Millisecond + time.Duration(tokens-1)*time.Millisecond
			}
			p.Took(tokens, took, 0)
		}
		require.InDelta(t, 0.010, p.time(1), 0.0005)
		require.InDelta(t, 0.023, p.time(2), 0.006)
		require.InDelta(t, 0.030, p.time(9), 0.0075)
		likely := func(int) float64 { return 0.7 }
		require.Zero(t, p.Best(2, 0, likely), "the step does not pay for two guesses")
		require.Greater(t, p.Best(16, 0, func(int) float64 { return 0.9 }), 8)
	}
}
