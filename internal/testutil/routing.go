package testutil

import (
	"math"
	"math/rand/v2"
)

// Routing generates a synthetic trace of a router's expert selections. Some experts are
// more popular than others, a token often selects the experts of the previous token,
// and the popular experts change from time to time.
type Routing struct {
	Layers, Experts, Used int
	Skew                  float64 // the popularity of rank r is r^-skew
	Stay                  float64 // probability of selecting an expert of the previous token again
	Subject               int     // tokens until the ranks change; 0: never
}

// Choose returns the selected experts of each token and layer.
func (r Routing) Choose(tokens int, seed uint64) [][][]int {
	rng := rand.New(rand.NewPCG(seed, 1))
	weights := make([]float64, r.Experts)
	for i := range weights {
		weights[i] = math.Pow(float64(i+1), -r.Skew)
	}
	ranks, last := make([][]int, r.Layers), make([][]int, r.Layers)
	trace := make([][][]int, tokens)
	for t := range trace {
		trace[t] = make([][]int, r.Layers)
		for l := range r.Layers {
			if t == 0 || r.Subject > 0 && t%r.Subject == 0 {
				ranks[l] = rng.Perm(r.Experts)
			}
			var now []int
			has := make([]bool, r.Experts)
			for _, e := range last[l] {
				if rng.Float64() < r.Stay {
					now, has[e] = append(now, e), true
				}
			}
			for len(now) < r.Used {
				best, bestKey := 0, math.Inf(1)
				for i, w := range weights { // weighted draw without replacement
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

// Routings holds one trace with equally popular experts and three with unequal
// popularity: moderate, strong, and strong with changing ranks.
var Routings = []Routing{
	{16, 64, 8, 0, 0, 0}, {16, 64, 8, 0.6, 0.3, 0}, {16, 64, 8, 1, 0.3, 0}, {16, 64, 8, 1, 0.3, 100},
}
