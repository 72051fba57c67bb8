package exec

import "math"

// expertPolicy says which experts are worth their memory. All calls come from one
// goroutine.
type expertPolicy interface {
	begin(tokens int)     // a pass over so many tokens begins
	used(id, rows int)    // so many rows of a step go to an expert, in memory or not
	entered(id int)       // the expert got a slot
	left(id int)          // the expert lost its slot
	worth(id int) float64 // of experts that have slots, the one of the least worth loses its own
}

// keepFrequent values an expert by how often it was used, of which each use
// counts half as much as one halfLife tokens later. It counts for every expert of
// the model, also those that are not in memory: that is eight bytes for megabytes
// of weights. So an expert that is seldom used does not stay for having just been
// read, which is what an admission policy is for: it is worth the least, and the
// next one gets its slot.
type keepFrequent struct {
	perLayer int
	halfLife float64   // tokens
	use      float64   // what a use counts now; it grows instead of all counts shrinking
	counts   []float64 // [layers*perLayer]
	scale    []float64 // [layers] 1/use when the layer was last passed
}

// frequentHalfLife is how many tokens it takes for a use to count half.
const frequentHalfLife = 512

// countLimit is where counts are scaled down, far below the largest float64.
const countLimit = 1e200

func newKeepFrequent(layers, perLayer int) *keepFrequent {
	k := &keepFrequent{
		perLayer: perLayer, halfLife: frequentHalfLife, use: 1,
		counts: make([]float64, layers*perLayer), scale: make([]float64, layers),
	}
	for i := range k.scale {
		k.scale[i] = 1
	}
	return k
}

func (k *keepFrequent) begin(tokens int) {
	k.use *= math.Exp2(float64(tokens) / k.halfLife)
	if k.use < countLimit {
		return
	}
	for i := range k.counts {
		k.counts[i] /= k.use
	}
	for i := range k.scale {
		k.scale[i] *= k.use
	}
	k.use = 1
}

func (k *keepFrequent) used(id, rows int) {
	k.counts[id] += k.use * float64(rows)
	k.scale[id/k.perLayer] = 1 / k.use
}

func (k *keepFrequent) entered(int) {}
func (k *keepFrequent) left(int)    {}

// worth is the count as it was when the layer was last passed. Otherwise the
// layers that a pass has yet to come to would look less used than those behind it.
func (k *keepFrequent) worth(id int) float64 { return k.counts[id] * k.scale[id/k.perLayer] }

// keepRecent evicts what was not used for longest. It is what others are measured
// against: a pass goes through the layers in a cycle, of which it keeps little.
type keepRecent struct {
	now  int64
	last []int64 // [layers*perLayer]
}

func newKeepRecent(layers, perLayer int) *keepRecent {
	return &keepRecent{last: make([]int64, layers*perLayer)}
}

func (k *keepRecent) begin(int) {}

func (k *keepRecent) used(id, _ int) {
	k.now++
	k.last[id] = k.now
}

func (k *keepRecent) entered(int)          {}
func (k *keepRecent) left(int)             {}
func (k *keepRecent) worth(id int) float64 { return float64(k.last[id]) }
