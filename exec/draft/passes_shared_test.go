package draft

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/tiering"
)

// Times of a pass by its tokens.
func untilMemory(most int, more time.Duration) func(tokens int) time.Duration { // flat up to some tokens, then linear
	return func(tokens int) time.Duration {
		return 30*time.Millisecond + time.Duration(max(0, tokens-most))*more
	}
}

func linear(more time.Duration) func(tokens int) time.Duration { return untilMemory(1, more) }

// answering is a sequence that looks up guesses behind a long match. They are right with a probability.
type answering struct {
	*Lookup
	right  float64
	passes Passes
}

// shared runs passes of sequences, whose guesses are right with the probabilities, and returns how many guesses a pass had at the
// end for each, and how many tokens a second all got. Guesses are priced with what passes took, and with the others of the last one.
func shared(t *testing.T, took func(tokens int) time.Duration, right ...float64) (guesses []float64, speed float64) {
	t.Helper()
	return sharedBetween(t, 600, 1200, took, right...)
}

// sharedBetween is shared for the passes from last on.
func sharedBetween(t *testing.T, last, passes int, took func(tokens int) time.Duration, right ...float64) (guesses []float64, speed float64) {
	t.Helper()
	const most = 16
	r := rand.New(rand.NewPCG(11, uint64(len(right))))
	times := NewPasses(Growth{Step: 0.25, More: 0.1}, false)
	all := make([]*answering, len(right))
	for i := range all {
		l, err := NewLookup(tiering.New(0), 200)
		require.NoError(t, err)
		t.Cleanup(l.Close)
		text := make([]int32, 0, 100)
		for j := range cap(text) {
			text = append(text, int32(j%40))
		}
		require.NoError(t, l.Begin(nil, text))
		all[i] = &answering{Lookup: l, right: right[i]}
	}
	guesses = make([]float64, len(right))
	gave, seconds := 0, time.Duration(0)
	for pass := range passes {
		tokens, kept := 0, 0
		counts, rights := make([]int, len(all)), make([]int, len(all))
		for i, a := range all {
			others := a.passes.Others
			a.passes = times
			a.passes.Others = others
			ids, err := a.Draft(context.Background(), nil, &Request{Most: most, Passes: &a.passes})
			require.NoError(t, err)
			for counts[i] = len(ids); rights[i] < len(ids) && r.Float64() < a.right; {
				rights[i]++
			}
			tokens, kept = tokens+1+len(ids), kept+1+rights[i]
		}
		times.Took(tokens, took(tokens), 0)
		for i, a := range all {
			a.Verified(counts[i], rights[i])
			a.passes.Others.Join(len(all) == 1 || pass == 0, Others{
				Tokens: float64(tokens - 1 - counts[i]), Gives: float64(kept - 1 - rights[i]),
				Guesses: float64(tokens - len(all) - counts[i]), Right: float64(kept - len(all) - rights[i]),
			})
			if pass >= last {
				guesses[i] += float64(counts[i]) / float64(passes-last)
			}
		}
		if pass >= last {
			gave, seconds = gave+kept, seconds+took(tokens)
		}
	}
	return guesses, float64(gave) / seconds.Seconds()
}

// TestGuessesOfSharedPassesMustPay has passes in which a token more takes a twelfth of a pass of one, alone and with eight
// sequences: there guesses that are seldom right cost the others more than they give, and those of copied texts pay. Where a pass
// waits for memory up to sixteen tokens, eight sequences use what eight others leave.
func TestGuessesOfSharedPassesMustPay(t *testing.T) {
	eight := func(right float64) (all []float64) {
		for range 8 {
			all = append(all, right)
		}
		return all
	}
	rows := linear(2500 * time.Microsecond)
	alone, speed := shared(t, rows, 0.2)
	require.Less(t, alone[0], 2.0)
	require.Greater(t, alone[0], 0.3, "0.2 tokens for 0.08 of a pass")
	require.Greater(t, speed, 1.02/0.030)

	few, speed := shared(t, rows, eight(0.2)...)
	for _, n := range few {
		require.Less(t, n, 0.1, "but for a try now and then")
	}
	require.Greater(t, speed, 0.99*8/rows(8).Seconds())

	many, speed := shared(t, rows, eight(0.9)...)
	for _, n := range many {
		require.Greater(t, n, 2.0)
	}
	require.Greater(t, speed, 1.4*8/rows(8).Seconds())

	one, speed := shared(t, rows, append(eight(0.05)[:7], 0.95)...)
	require.Greater(t, one[7], 4.0, "a text that is copied among others")
	for _, n := range one[:7] {
		require.Less(t, n, 0.1)
	}
	require.Greater(t, speed, 1.1*8/rows(8).Seconds())

	waits := untilMemory(16, 10*time.Millisecond)
	free, speed := shared(t, waits, eight(0.6)...)
	require.Greater(t, speed, 1.45*8/waits(8).Seconds(), "%v: a guess of each sequence is free", free)
}

// steps are times of a processor whose kernels take as many tokens as the next power of two, and compute all of them.
func steps(tokens int) time.Duration {
	each := []time.Duration{22, 23, 31, 31, 57, 57, 57, 57} // milliseconds
	switch {
	case tokens <= len(each):
		return each[tokens-1] * time.Millisecond
	case tokens <= 16:
		return 128 * time.Millisecond
	}
	return time.Duration(tokens+15) / 16 * 128 * time.Millisecond
}

// TestGuessesKnowSteps has eight sequences in passes that take 2.2 times as long with one guess. All of them guess in the first pass, whose time
// tells that it does not pay, whether guesses are often right or seldom: what each of them left out alone would make the pass no shorter. Sequences
// whose pass has room up to the step use it.
func TestGuessesKnowSteps(t *testing.T) {
	for _, right := range []float64{0.1, 0.5, 0.8} {
		guesses, speed := sharedBetween(t, 0, 64, steps, right, right, right, right, right, right, right, right)
		require.Greater(t, speed, 0.85*8/steps(8).Seconds(), "right %v: %v", right, guesses)
		guesses, speed = sharedBetween(t, 64, 2000, steps, right, right, right, right, right, right, right, right)
		require.Greater(t, speed, 0.98*8/steps(8).Seconds(), "right %v: %v", right, guesses)
	}
	guesses, speed := shared(t, steps, 0.7, 0.7, 0.7, 0.7, 0.7)
	require.Greater(t, speed, 1.2*5/steps(5).Seconds(), "three guesses are free: %v", guesses)
}

// TestRoomFollowsCosts adds tokens of prompts to passes of answers.
func TestRoomFollowsCosts(t *testing.T) {
	p := NewPasses(Growth{Step: 0.25, More: 0.1}, false)
	for range 100 {
		for n := 1; n <= 512; n *= 2 {
			p.Took(n, 40*time.Millisecond+time.Duration(n)*2*time.Millisecond, 0)
		}
	}
	require.InDelta(t, (3*48-40)/2-4, p.Room(4, 508, 3, 0), 2, "twice as long as the pass of four answers, at 2 ms a token")
	require.Equal(t, 10, p.Room(4, 10, 3, 0), "as many as there is room for")
	require.Zero(t, p.Room(4, 508, 1, 0))
	require.InDelta(t, (200-40)/2-4, p.Room(4, 508, 1, 200*time.Millisecond), 5)
}

// TestPassesKnowTheirSizes measures passes that wait for memory up to sixteen tokens and compute behind that, first alone, then of
// eight sequences.
func TestPassesKnowTheirSizes(t *testing.T) {
	took := untilMemory(16, 2*time.Millisecond)
	p := NewPasses(Growth{Step: 0.25, More: 0.1}, false)
	learn := func(sizes ...int) {
		for range 60 {
			for _, n := range sizes {
				p.Took(n, took(n), 0)
			}
		}
	}
	learn(1)
	require.InDelta(t, 0.030, p.time(1), 1e-6)
	require.InDelta(t, 0.030*1.95, p.time(8), 1e-6, "not seen yet")
	learn(8, 1, 17, 136)
	for _, n := range []int{1, 8, 16, 17, 136} {
		require.InEpsilon(t, took(n).Seconds(), p.time(n), 0.12, "%d tokens", n)
	}
	require.InEpsilon(t, p.time(8), p.time(2), 0.02, "between two that take as long")
	require.Greater(t, p.time(5000), p.time(4096))
	p.Others.Tokens = 7
	require.InEpsilon(t, 0.030, p.time(1), 0.03)
	before := p.time(1)
	for range 20000 {
		p.Took(8, 2*took(8), 0)
	}
	require.InEpsilon(t, 2*before, p.time(1), 0.03)
	require.Greater(t, p.time(129), 0.4, "what is not tried follows")
	for n := range 300 {
		require.LessOrEqual(t, p.time(n+1), p.time(n+2), "%d tokens", n)
	}
}
