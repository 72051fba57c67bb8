package exec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dgraph-io/ristretto/v2"
	"github.com/stretchr/testify/require"
)

// routing is a made-up trace of what a router chooses: experts are unevenly
// popular, tokens like to stay with the experts of the token before, and from
// time to time another subject makes other experts popular.
type routing struct {
	layers, experts, used int
	skew                  float64 // popularity is rank^-skew
	stay                  float64 // chance that an expert is chosen again
	subject               int     // tokens until the ranks change, 0 for never
}

// choose returns the experts of each token and layer.
func (r routing) choose(tokens int, seed uint64) [][][]int {
	rng := rand.New(rand.NewPCG(seed, 1))
	weights := make([]float64, r.experts)
	for i := range weights {
		weights[i] = math.Pow(float64(i+1), -r.skew)
	}
	ranks, last := make([][]int, r.layers), make([][]int, r.layers)
	trace := make([][][]int, tokens)
	for t := range trace {
		trace[t] = make([][]int, r.layers)
		for l := range r.layers {
			if t == 0 || r.subject > 0 && t%r.subject == 0 {
				ranks[l] = rng.Perm(r.experts)
			}
			var now []int
			has := make([]bool, r.experts)
			for _, e := range last[l] {
				if rng.Float64() < r.stay {
					now, has[e] = append(now, e), true
				}
			}
			for len(now) < r.used {
				best, bestKey := 0, math.Inf(1)
				for i, w := range weights { // one draw by weight, without those chosen
					if e := ranks[l][i]; !has[e] {
						if key := rng.ExpFloat64() / w; key < bestKey {
							best, bestKey = e, key
						}
					}
				}
				now, has[best] = append(now, best), true
			}
			trace[t][l], last[l] = now, now
		}
	}
	return trace
}

// replay returns how many of the experts a cache of so many slots has when they
// are used, after a warm-up. Nothing is read.
func replay(p expertPolicy, r routing, trace [][][]int, slots int) float64 {
	slotted := map[int]bool{}
	var used, hits int
	for t, token := range trace {
		p.begin(1)
		for l, chosen := range token {
			for _, e := range chosen {
				p.used(l*r.experts+e, 1)
			}
			step := map[int]bool{}
			for _, e := range chosen {
				id := l*r.experts + e
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
						if w := p.worth(have); !step[have] && w < least {
							victim, least = have, w
						}
					}
					delete(slotted, victim)
					p.left(victim)
				}
				slotted[id] = true
				p.entered(id)
			}
		}
	}
	return float64(hits) / float64(used)
}

// ristrettoPolicy keeps what ristretto would keep: those that it does not hold
// are evicted first.
type ristrettoPolicy struct {
	cache  *ristretto.Cache[uint64, struct{}]
	recent *keepRecent
}

func newRistretto(tb testing.TB, layers, perLayer, slots int) *ristrettoPolicy {
	cache, err := ristretto.NewCache(&ristretto.Config[uint64, struct{}]{
		NumCounters: int64(10 * slots), MaxCost: int64(slots - 8), BufferItems: 64, IgnoreInternalCost: true,
	})
	require.NoError(tb, err)
	tb.Cleanup(cache.Close)
	return &ristrettoPolicy{cache, newKeepRecent(layers, perLayer)}
}

func (p *ristrettoPolicy) begin(int) {}
func (p *ristrettoPolicy) used(id, rows int) {
	p.recent.used(id, rows)
	p.cache.Get(uint64(id))
}

func (p *ristrettoPolicy) entered(id int) {
	p.cache.Set(uint64(id), struct{}{}, 1)
	p.cache.Wait()
}
func (p *ristrettoPolicy) left(int) {}

func (p *ristrettoPolicy) worth(id int) float64 {
	if _, ok := p.cache.GetTTL(uint64(id)); ok {
		return math.MaxFloat64 / 2 * (1 + p.recent.worth(id)/1e12)
	}
	return p.recent.worth(id)
}

// TestFrequentBeatsRecent: whatever the routing, not evicting by age alone pays.
func TestFrequentBeatsRecent(t *testing.T) {
	for _, r := range routings {
		trace := r.choose(150, 2)
		for _, slots := range []int{150, 300} {
			frequent := replay(newKeepFrequent(r.layers, r.experts), r, trace, slots)
			require.Greater(t, frequent, replay(newKeepRecent(r.layers, r.experts), r, trace, slots), "%+v", r)
		}
	}
}

// TestUseCountsStayFinite counts over many more tokens than a float64 has powers
// of two, and in chunks that are many half-lives long.
func TestUseCountsStayFinite(t *testing.T) {
	u := newUseCounts(2, 3, 1)
	for range 5000 {
		u.begin(1)
		u.add(1, 1)
		u.add(4, 2)
	}
	require.InDelta(t, 2, u.share(1), 1e-9, "1 + 1/2 + 1/4 + …")
	require.InDelta(t, 4, u.share(4), 1e-9)
	require.Zero(t, u.share(0))
	for range 20 {
		u.begin(1 << 20)
		u.add(1, 1)
	}
	require.InDelta(t, 1, u.share(1), 1e-9)
}

// routings are evenly used experts, and three of uneven use: by taste, more so,
// and with subjects that change.
var routings = []routing{
	{16, 64, 8, 0, 0, 0}, {16, 64, 8, 0.6, 0.3, 0}, {16, 64, 8, 1, 0.3, 0}, {16, 64, 8, 1, 0.3, 100},
}

// BenchmarkExpertPolicies replays traces without a model: how many of the experts
// that are used each policy would have kept.
func BenchmarkExpertPolicies(b *testing.B) {
	for _, r := range routings {
		trace := r.choose(300, 1)
		for _, share := range []float64{0.15, 0.3, 0.6} {
			slots := int(share * float64(r.layers*r.experts))
			for _, c := range []struct {
				name string
				p    expertPolicy
			}{
				{"recent", newKeepRecent(r.layers, r.experts)},
				{"frequent", newKeepFrequent(r.layers, r.experts)},
				{"ristretto", newRistretto(b, r.layers, r.experts, slots)},
			} {
				b.Run(fmt.Sprintf("skew=%v/stay=%v/subject=%d/slots=%d/%s", r.skew, r.stay, r.subject, slots, c.name), func(b *testing.B) {
					b.ReportAllocs()
					for range b.N {
						b.ReportMetric(100*replay(c.p, r, trace, slots), "%hits")
					}
				})
			}
		}
	}
}
