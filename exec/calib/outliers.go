package calib

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/store/w8a8"
)

// DefaultOutlierFraction returns the default fraction of an input's elements that may
// exceed its scale. In published measurements of models of 1 to 7 billion weights, outliers
// are in 0.1 to 0.3 % of the channels, 5 to 15 of them. Narrow inputs get room for four
// fixed channels that always exceed it.
func DefaultOutlierFraction(cols int) float64 { return max(0.003, 4/float64(cols)) }

const (
	// ChooseScale accepts more outliers if each fractionPerBit of the elements gains a bit
	// of resolution, and all of them at least minGainBits. That is the case if more
	// channels exceed all others than published; tails that thin out gain less.
	fractionPerBit = 0.02
	minGainBits    = 0.5
	// maxOutlierFraction limits these outliers: beyond it the float path takes too long.
	maxOutlierFraction = 0.1
)

const (
	// Channels are hot until they cover this fraction of the outliers, or reach this
	// fraction of all channels, so that rarely used columns take no memory.
	hotCoverage    = 0.8
	maxHotFraction = 0.03
)

// inputRoles are the roles of the W8A8 matrices; those in one list have the same input.
var inputRoles = [][]string{
	{"attn_q", "attn_k", "attn_v"},
	{"attn_output"},
	{"shortconv.in_proj"},
	{"shortconv.out_proj"},
	{"ffn_gate", "ffn_up"},
	{"ffn_down"},
	{"ffn_gate_shexp", "ffn_up_shexp"},
	{"ffn_down_shexp"},
}

// InputGroups returns the names of matrices in order of use, grouped by input. has reports
// which matrices the model has.
func InputGroups(layers int, has func(name string) bool) (groups [][]string) {
	for l := range layers {
		for _, roles := range inputRoles {
			var group []string
			for _, role := range roles {
				if name := modelfile.TensorName(role, l, ".weight"); has(name) {
					group = append(group, name)
				}
			}
			if len(group) > 0 {
				groups = append(groups, group)
			}
		}
	}
	return groups
}

// MaxCandidateBytes limits the memory of outlier candidates. Tests change it.
var MaxCandidateBytes int64 = 256 << 20

// InputMagnitudes are the observed magnitudes of an input.
type InputMagnitudes struct {
	Name     string
	Matrices []w8a8.Matrix

	bins          [magnitudeBins]int64
	maxBits       uint32 // bits of the largest magnitude
	Scale         float32
	Limit         uint32  // bits of the largest magnitude that is not an outlier
	OutlierCounts []int64 // [cols] outliers of each channel

	candidates
}

// Bins are the leading bits of a float32 magnitude: the exponent and five more, so that
// bin edges are 3 % apart.
const (
	binShift      = 23 - 5
	magnitudeBins = 1 << (31 - binShift)
)

// binEdge returns the upper edge of bin i, exclusive.
func binEdge(i int) float32 { return math.Float32frombits(uint32(i+1) << binShift) }

// Observe counts the magnitudes of a row.
func (s *InputMagnitudes) Observe(x []float32 /* [cols] */) {
	for _, v := range x {
		bits := weights.MagnitudeBits(v)
		s.bins[bits>>binShift]++
		s.maxBits = max(s.maxBits, bits)
	}
	s.add(x, &s.bins)
}

// CountOutliers counts the outliers of a row by channel, unless the candidates contained
// all of them.
func (s *InputMagnitudes) CountOutliers(x []float32 /* [cols] */) {
	if s.complete {
		return
	}
	for i, v := range x {
		if weights.MagnitudeBits(v) > s.Limit {
			s.OutlierCounts[i]++
		}
	}
}

// elements returns the number of observed elements.
func (s *InputMagnitudes) elements() (n int64) {
	for _, count := range s.bins {
		n += count
	}
	return n
}

// ChooseScale sets the scale so that at most a fraction of the elements exceeds it. With
// fraction 0 it uses DefaultOutlierFraction, and accepts more outliers if that gains enough
// resolution.
func (s *InputMagnitudes) ChooseScale(fraction float64) {
	edge := s.Threshold(AllowedOutliers(fraction, len(s.OutlierCounts), s.elements()))
	if fraction == 0 {
		edge = s.lowerThreshold(edge)
	}
	s.Scale = edge / 127
	s.Limit = weights.MagnitudeBits(weights.OutlierLimit(s.Scale))
}

// AllowedOutliers returns how many of an input's elements may exceed its scale, before
// lowerThreshold.
func AllowedOutliers(fraction float64, cols int, elements int64) int64 {
	return int64(cmp.Or(fraction, DefaultOutlierFraction(cols)) * float64(elements))
}

// Threshold returns the smallest magnitude that at most allowed elements exceed.
func (s *InputMagnitudes) Threshold(allowed int64) float32 {
	return min(binEdge(topBin(&s.bins, allowed)), math.Float32frombits(s.maxBits))
}

// topBin returns the lowest bin with at most allowed elements above it.
func topBin(bins *[magnitudeBins]int64, allowed int64) int {
	top := len(bins) - 1
	for above := bins[top]; top > 0 && above <= allowed; above += bins[top] {
		top--
	}
	return top
}

// lowerThreshold returns the magnitude below edge whose gain in resolution exceeds the cost
// of its additional outliers most, or edge.
func (s *InputMagnitudes) lowerThreshold(edge float32) float32 {
	n := float64(s.elements())
	gained := func(e float32, more int64) float64 {
		return math.Log2(float64(edge)/float64(e)) - float64(more)/(fractionPerBit*n)
	}
	best, most := edge, minGainBits
	beyond, more := int64(0), int64(0) // elements above edge, and between the candidate and edge
	top := int(weights.MagnitudeBits(edge) >> binShift)
	for i := len(s.bins) - 1; i > 0 && float64(beyond+more) <= maxOutlierFraction*n; i-- {
		if i >= top {
			beyond += s.bins[i]
			continue
		}
		if gain := gained(binEdge(i), more); gain > most {
			best, most = binEdge(i), gain
		}
		more += s.bins[i]
	}
	return best
}

// scaleWithoutOutliers returns the scale for an input without an outlier path: the one with
// the smallest mean square error of quantization and clipping together. loss is the ratio
// of its root mean square error to that with an outlier path.
func (s *InputMagnitudes) scaleWithoutOutliers() (scale, loss float32) {
	n := float64(s.elements())
	least := math.Inf(1)
	// The clipping error at an edge follows from the count, sum and sum of squares of the
	// elements beyond it.
	var count, sum, squares float64
	for i := len(s.bins) - 1; i > 0; i-- {
		edge := float64(min(binEdge(i), math.Float32frombits(s.maxBits)))
		step := edge / 127
		clipped := squares - 2*edge*sum + edge*edge*count
		if e := clipped + n*step*step/12; count < n && e < least && step > 0 && !math.IsInf(step, 0) {
			scale, least = float32(step), e
		}
		middle := float64(math.Float32frombits(uint32(i)<<binShift | 1<<(binShift-1)))
		if c := float64(s.bins[i]); c > 0 {
			count, sum, squares = count+c, sum+c*middle, squares+c*middle*middle
		}
	}
	withPath := n * float64(s.Scale) * float64(s.Scale) / 12
	return scale, float32(math.Sqrt(least / withPath))
}

// Input returns the calibration of the input.
func (s *InputMagnitudes) Input() (w8a8.Input, error) {
	in := w8a8.Input{
		Name: s.Name, Cols: len(s.OutlierCounts), Scale: s.Scale, Max: math.Float32frombits(s.maxBits),
		Elements: s.elements(), Matrices: s.Matrices, Channels: []w8a8.Channel{},
	}
	if math.IsNaN(float64(in.Max)) || math.IsInf(float64(in.Max), 0) {
		return in, fmt.Errorf("%w: the inputs of %s contain infinities or NaN", arch.ErrModel, s.Name)
	}
	if in.Elements == 0 || in.Scale == 0 {
		return in, fmt.Errorf("%w: all inputs of %s are zero: calibrate with a longer text", arch.ErrModel, s.Name)
	}
	in.ClippedScale, in.ClippedErrorRatio = s.scaleWithoutOutliers()
	for channel, count := range s.OutlierCounts {
		if count > 0 {
			in.Channels = append(in.Channels, w8a8.Channel{Channel: channel, Count: count})
			in.Outliers += count
		}
	}
	slices.SortStableFunc(in.Channels, func(a, b w8a8.Channel) int { return cmp.Compare(b.Count, a.Count) })
	most := max(1, int(maxHotFraction*float64(in.Cols)))
	for hot := int64(0); in.Hot < min(most, len(in.Channels)) && float64(hot) < hotCoverage*float64(in.Outliers); in.Hot++ {
		hot += in.Channels[in.Hot].Count
	}
	return in, nil
}

// candidates are the elements of an input that may turn out to be outliers. More
// observations only raise the outlier threshold, so elements below the current one are
// dropped.
type candidates struct {
	list    []candidate // nil: candidates are not collected
	allowed int64       // maximum number of outliers at the end
	floor   uint32      // bits of the largest magnitude that is no candidate
	// complete: the list contained all outliers.
	complete bool
}

type candidate struct {
	channel uint32
	bits    uint32 // of the magnitude
}

const candidateBytes = 8

// CollectCandidates makes all inputs collect candidates, if MaxCandidateBytes suffices for
// a text of a number of tokens. It reports whether it does.
func CollectCandidates(inputs []*InputMagnitudes, tokens int, fraction float64) bool {
	need := int64(0)
	for _, s := range inputs {
		cols := len(s.OutlierCounts)
		s.allowed = AllowedOutliers(fraction, cols, int64(tokens)*int64(cols))
		need += candidateBytes * s.candidates.capacity()
	}
	if need > MaxCandidateBytes {
		return false
	}
	for _, s := range inputs {
		s.list = make([]candidate, 0, s.candidates.capacity())
	}
	return true
}

// capacity returns the maximum number of candidates: a quarter more than outliers, so that
// the list is pruned rarely.
func (c *candidates) capacity() int64 { return c.allowed + c.allowed/4 + 64 }

// add adds the candidates of a row, which bins include already.
func (c *candidates) add(x []float32 /* [cols] */, bins *[magnitudeBins]int64) {
	if c.list == nil {
		return
	}
	for i, v := range x {
		bits := weights.MagnitudeBits(v)
		if bits <= c.floor {
			continue
		}
		if len(c.list) == cap(c.list) {
			c.raiseFloor(bins)
		}
		if bits > c.floor {
			c.list = append(c.list, candidate{uint32(i), bits})
		}
	}
}

// raiseFloor raises the floor to the threshold that bins imply and drops candidates. At
// most allowed remain.
func (c *candidates) raiseFloor(bins *[magnitudeBins]int64) {
	c.floor = uint32(topBin(bins, c.allowed)+1)<<binShift - 1
	c.list = slices.DeleteFunc(c.list, func(e candidate) bool { return e.bits <= c.floor })
}

// CountCandidates counts the outliers among the candidates by channel, and reports whether
// the candidates contain all outliers. It frees the list.
func (c *candidates) CountCandidates(limit uint32, beyond []int64 /* [cols] */) bool {
	if c.complete = c.list != nil && limit >= c.floor; c.complete {
		for _, e := range c.list {
			if e.bits > limit {
				beyond[e.channel]++
			}
		}
	}
	c.list = nil
	return c.complete
}
