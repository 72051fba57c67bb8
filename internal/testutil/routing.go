package testutil

import (
	"math"
	"math/rand/v2"
)

// Routing is a made-up trace of what a router chooses: experts are unevenly
// popular, tokens like to stay with the experts of the token before, and from
// time to time another subject makes other experts popular.
type Routing struct {
	Layers, Experts, Used int
	Skew                  float64 // popularity is rank^-skew
	Stay                  float64 // chance that an expert is chosen again
	Subject               int     // tokens until the ranks change, 0 for never
}

// Choose returns the experts of each token and layer.
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

// Routings are evenly used experts, and three of uneven use: by taste, more so,
// and with subjects that change.
var Routings = []Routing{
	{16, 64, 8, 0, 0, 0}, {16, 64, 8, 0.6, 0.3, 0}, {16, 64, 8, 1, 0.3, 0}, {16, 64, 8, 1, 0.3, 100},
}
