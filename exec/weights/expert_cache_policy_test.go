package weights

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// replay returns the hit rate of a cache with a number of slots on a routing trace, after a
// warm-up. It reads nothing.
func replay(p evictionPolicy, r testutil.Routing, trace [][][]int, slots int) float64 {
	slotted := map[int]bool{}
	var used, hits int
	for t, token := range trace {
		p.begin(1)
		for l, chosen := range token {
			for _, e := range chosen {
				p.used(l*r.Experts+e, 1)
			}
			step := map[int]bool{}
			for _, e := range chosen {
				id := l*r.Experts + e
				step[id] = true
				if t >= len(trace)/3 {
					used++
					if slotted[id] {
						hits++
					}
				}
			}
			for id := range step {
				if slotted[id] {
					continue
				}
				if len(slotted) == slots {
					victim, least := -1, math.Inf(1)
					for have := range slotted {
						if w := p.Value(have); !step[have] && w < least {
							victim, least = have, w
						}
					}
					delete(slotted, victim)
					p.evicted(victim)
				}
				slotted[id] = true
				p.admitted(id)
			}
		}
	}
	return float64(hits) / float64(used)
}

// TestFrequentBeatsRecent checks that the frequency policy has more hits than LRU on every
// routing.
func TestFrequentBeatsRecent(t *testing.T) {
	for _, r := range testutil.Routings {
		trace := r.Choose(150, 2)
		for _, slots := range []int{150, 300} {
			frequent := replay(newFrequentPolicy(r.Layers, r.Experts), r, trace, slots)
			require.Greater(t, frequent, replay(newRecentPolicy(r.Layers, r.Experts), r, trace, slots), "%+v", r)
		}
	}
}

// TestUseCountsStayFinite counts over more tokens than a float64 has powers of two, and in
// chunks that are many half-lives long.
func TestUseCountsStayFinite(t *testing.T) {
	u := newUseCounts(2, 3, 1)
	for range 5000 {
		u.begin(1)
		u.add(1, 1)
		u.add(4, 2)
	}
	require.InDelta(t, 2, u.rate(1), 1e-9, "1 + 1/2 + 1/4 + …")
	require.InDelta(t, 4, u.rate(4), 1e-9)
	require.Zero(t, u.rate(0))
	for range 20 {
		u.begin(1 << 20)
		u.add(1, 1)
	}
	require.InDelta(t, 1, u.rate(1), 1e-9)
}

// BenchmarkExpertPolicies reports the hit rate of each policy on traces, without a model.
func BenchmarkExpertPolicies(b *testing.B) {
	for _, r := range testutil.Routings {
		trace := r.Choose(300, 1)
		for _, share := range []float64{0.15, 0.3, 0.6} {
			slots := int(share * float64(r.Layers*r.Experts))
			for _, c := range []struct {
				name string
				p    evictionPolicy
			}{
				{"recent", newRecentPolicy(r.Layers, r.Experts)},
				{"frequent", newFrequentPolicy(r.Layers, r.Experts)},
			} {
				b.Run(fmt.Sprintf("skew=%v/stay=%v/subject=%d/slots=%d/%s", r.Skew, r.Stay, r.Subject, slots, c.name), func(b *testing.B) {
					b.ReportAllocs()
					for range b.N {
						b.ReportMetric(100*replay(c.p, r, trace, slots), "%hits")
					}
				})
			}
		}
	}
}
