package weights

import "math"

// evictionPolicy ranks experts. All calls come from one goroutine.
type evictionPolicy interface {
	begin(tokens int)     // a pass over tokens begins
	used(id, rows int)    // a step routes rows to the expert, which may not be in memory
	admitted(id int)      // the expert received a slot
	evicted(id int)       // the expert lost its slot
	Value(id int) float64 // the expert of the least value is evicted first
}

// frequentPolicy ranks experts by their rate of use: a short-term average, which follows
// the current text, plus a long-term one. It counts uses of all experts, including those
// that are not in memory, in 16 bytes each. A rarely used expert therefore has the least
// value soon after it was read, and needs no admission policy.
type frequentPolicy struct {
	short, long useCounts
}

const (
	// shortHalfLife and longHalfLife are the tokens after which a use counts half.
	shortHalfLife = 1
	longHalfLife  = 64
	// countLimit is where counts are rescaled, far below the largest float64.
	countLimit = 1e200
)

func newFrequentPolicy(layers, perLayer int) *frequentPolicy {
	return &frequentPolicy{newUseCounts(layers, perLayer, shortHalfLife), newUseCounts(layers, perLayer, longHalfLife)}
}

func (k *frequentPolicy) begin(tokens int) {
	k.short.begin(tokens)
	k.long.begin(tokens)
}

func (k *frequentPolicy) used(id, rows int) {
	k.short.add(id, rows)
	k.long.add(id, rows)
}

func (k *frequentPolicy) admitted(int)         {}
func (k *frequentPolicy) evicted(int)          {}
func (k *frequentPolicy) Value(id int) float64 { return k.short.rate(id) + k.long.rate(id) }

// useCounts counts uses with exponential decay.
type useCounts struct {
	perLayer int
	halfLife float64   // tokens
	weight   float64   // of a use now; it grows, so that the counts need not shrink
	counts   []float64 // [layers*perLayer]
	scale    []float64 // [layers] 1/weight at the layer's last use
}

func newUseCounts(layers, perLayer int, halfLife float64) useCounts {
	u := useCounts{
		perLayer: perLayer, halfLife: halfLife, weight: 1,
		counts: make([]float64, layers*perLayer), scale: make([]float64, layers),
	}
	for i := range u.scale {
		u.scale[i] = 1
	}
	return u
}

// begin ages the counts by a number of tokens.
func (u *useCounts) begin(tokens int) {
	// A prefill chunk may be many half-lives long.
	u.weight *= math.Exp2(min(float64(tokens)/u.halfLife, 256))
	if u.weight < countLimit {
		return
	}
	for i := range u.counts {
		u.counts[i] /= u.weight
	}
	for i := range u.scale {
		u.scale[i] *= u.weight
	}
	u.weight = 1
}

func (u *useCounts) add(id, rows int) {
	u.counts[id] += u.weight * float64(rows)
	u.scale[id/u.perLayer] = 1 / u.weight
}

// rate returns roughly how many of the layer's tokens used an expert. It is as of the
// layer's last use: otherwise the layers that the pass has yet to compute would seem less
// used than those that it has computed.
func (u *useCounts) rate(id int) float64 {
	return u.counts[id] * u.scale[id/u.perLayer] / u.halfLife
}

// recentPolicy evicts the least recently used expert. It is the baseline of comparisons: a
// pass cycles through the layers, which is the worst case of LRU.
type recentPolicy struct {
	now  int64
	last []int64 // [layers*perLayer]
}

func newRecentPolicy(layers, perLayer int) *recentPolicy {
	return &recentPolicy{last: make([]int64, layers*perLayer)}
}

func (k *recentPolicy) begin(int) {}

func (k *recentPolicy) used(id, _ int) {
	k.now++
	k.last[id] = k.now
}

func (k *recentPolicy) admitted(int)         {}
func (k *recentPolicy) evicted(int)          {}
func (k *recentPolicy) Value(id int) float64 { return float64(k.last[id]) }
