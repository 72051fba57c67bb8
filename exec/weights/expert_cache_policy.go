package weights

import "math"

// evictionPolicy says which experts are worth their memory. All calls come from one
// goroutine.
type evictionPolicy interface {
	begin(tokens int)     // a pass over so many tokens begins
	used(id, rows int)    // so many rows of a step go to an expert, in memory or not
	admitted(id int)      // the expert got a slot
	evicted(id int)       // the expert lost its slot
	Value(id int) float64 // of experts that have slots, the one of the least worth loses its own
}

// frequentPolicy values an expert by how often it is likely to be used: by its
// share of late, which a text that goes on suggests, and its share over a longer
// time. It counts for every expert of the model, also those that are not in
// memory: that is 16 bytes for megabytes of weights. So an expert that is seldom
// used does not stay for having just been read, which is what an admission policy
// is for: it is soon worth the least, and the next one gets its slot.
type frequentPolicy struct {
	short, long useCounts
}

const (
	// shortHalfLife and longHalfLife are the tokens after which a use counts half.
	shortHalfLife = 1
	longHalfLife  = 64
	// countLimit is where counts are scaled down, far below the largest float64.
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

// useCounts counts uses, of which each counts half as much some tokens later.
type useCounts struct {
	perLayer int
	halfLife float64   // tokens
	weight   float64   // what a use counts now; it grows instead of all counts shrinking
	counts   []float64 // [layers*perLayer]
	scale    []float64 // [layers] 1/use when the layer was last passed
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

// begin makes what was counted worth less by the time that so many tokens take.
func (u *useCounts) begin(tokens int) {
	// A chunk of a prompt may be many half-lives long.
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

// rate returns about how many of the layer's tokens used an expert. It is the
// count as it was when the layer was last passed: otherwise the layers that a pass
// has yet to come to would look less used than those behind it.
func (u *useCounts) rate(id int) float64 {
	return u.counts[id] * u.scale[id/u.perLayer] / u.halfLife
}

// recentPolicy evicts what was not used for longest. It is what others are measured
// against: a pass goes through the layers in a cycle, of which it keeps little.
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
