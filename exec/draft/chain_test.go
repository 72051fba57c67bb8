package draft

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestChainsEndWhereTheyAreUnsure verifies guesses that are wrong only where their margin is small, in passes that take as
// long as ten drafted tokens. Chains learn to end there, and go on elsewhere: they give more tokens per second than those of any
// fixed length.
func TestChainsEndWhereTheyAreUnsure(t *testing.T) {
	const each, pass, most = 10 * time.Millisecond, 100 * time.Millisecond, 16
	speed := func(draft func(c *Chain, r *Request, margins []float64) int) float64 {
		rng := rand.New(rand.NewPCG(3, 5))
		c, p := newChain(nestedRight), NewPasses(Growth{More: 0.01}, false)
		p.Took(1, pass, 0)
		r := &Request{Most: most, Passes: &p}
		tokens, took := 0, time.Duration(0)
		for range 2000 {
			margins, right := make([]float64, most), most
			for i := range margins {
				margins[i] = 4
				if rng.IntN(12) == 0 {
					margins[i] = 0.1
					if rng.IntN(4) > 0 {
						right = min(right, i)
					}
				}
			}
			n := draft(&c, r, margins)
			c.Took(n, each*time.Duration(n))
			c.Verified(n, min(n, right))
			tokens += 1 + min(n, right)
			took += pass + each*time.Duration(n)
		}
		return float64(tokens) / took.Seconds()
	}
	best := 0.0
	for n := range most + 1 {
		best = max(best, speed(func(c *Chain, r *Request, _ []float64) int { return min(n, c.Best(r, most)) }))
	}
	learned := speed(func(c *Chain, r *Request, margins []float64) int {
		require.Equal(t, most, c.Best(r, most))
		for i, margin := range margins {
			if r.Margin = margin; !c.More(r) {
				return i + 1
			}
		}
		return most
	})
	require.Greater(t, learned, 1.15*best)
	c, r := newChain(nestedRight), &Request{Most: most, Always: true, Passes: &Passes{}}
	require.Equal(t, most, c.Best(r, most))
	require.True(t, c.More(r), "a drafter that is asked for all guesses makes all")
}
