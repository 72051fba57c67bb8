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

// DefaultOutlierFraction returns the part of an input's elements that may lie beyond
// its scale. Of models of 1 to 7 billion weights it was published that outliers are
// in 0.1 to 0.3 % of the channels, 5 to 15 of them; narrow inputs have room for as
// many channels as fixed ones that always exceed.
func DefaultOutlierFraction(cols int) float64 { return max(0.003, 4/float64(cols)) }

const (
	// More may lie beyond where a bit is gained for each fractionPerBit of the elements, and
	// then minGainBits bits more: where more channels exceed all others than was
	// published. Tails that only thin out gain less.
	fractionPerBit = 0.02
	minGainBits    = 0.5
	// maxOutlierFraction is the largest part that does: beyond it floats take long.
	maxOutlierFraction = 0.1
)

const (
	// Channels are hot until they have most of the outliers, or are too many to stay
	// in memory for little.
	hotCoverage    = 0.8
	maxHotFraction = 0.03
)

// inputRoles are the roles of matrices that are multiplied in integers as a whole,
// those in one list with the same input.
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

// InputGroups returns the names of matrices, those together that have the same
// input, in the order of use. has says which there are.
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

// MaxCandidateBytes bounds the memory for what may turn out to lie beyond a scale. Tests
// change it.
var MaxCandidateBytes int64 = 256 << 20

// InputMagnitudes are the magnitudes that were seen of an input.
type InputMagnitudes struct {
	Name     string
	Matrices []w8a8.Matrix

	bins          [magnitudeBins]int64
	maxBits       uint32 // bits of the largest
	Scale         float32
	Limit         uint32  // bits of the largest that is no outlier
	OutlierCounts []int64 // [cols] outliers of each channel

	candidates
}

// Magnitudes are counted by the leading bits of their float32: the exponent and
// five more, so that the edges of bins are 3 % apart.
const (
	binShift      = 23 - 5
	magnitudeBins = 1 << (31 - binShift)
)

// binEdge returns the smallest magnitude that bin i does not hold.
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

// CountOutliers counts the outliers of a row by their channels, if they were not remembered.
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

// elements returns how many were measured.
func (s *InputMagnitudes) elements() (n int64) {
	for _, count := range s.bins {
		n += count
	}
	return n
}

// ChooseScale sets the scale beyond which not more than a share of the elements lies; 0
// leaves the share to defaultOutlierShare and to what more outliers gain.
func (s *InputMagnitudes) ChooseScale(share float64) {
	edge := s.Threshold(AllowedOutliers(share, len(s.OutlierCounts), s.elements()))
	if share == 0 {
		edge = s.lowerThreshold(edge)
	}
	s.Scale = edge / 127
	s.Limit = weights.MagnitudeBits(weights.OutlierLimit(s.Scale))
}

// AllowedOutliers returns how many of an input's elements may lie beyond its scale,
// cliffs aside.
func AllowedOutliers(share float64, cols int, elements int64) int64 {
	return int64(cmp.Or(share, DefaultOutlierFraction(cols)) * float64(elements))
}

// Threshold returns the magnitude beyond which not more than so many elements lie.
func (s *InputMagnitudes) Threshold(allowed int64) float32 {
	return min(binEdge(topBin(&s.bins, allowed)), math.Float32frombits(s.maxBits))
}

// topBin returns the lowest bin above which no more than allowed elements are.
func topBin(bins *[magnitudeBins]int64, allowed int64) int {
	top := len(bins) - 1
	for above := bins[top]; top > 0 && above <= allowed; above += bins[top] {
		top--
	}
	return top
}

// lowerThreshold returns the magnitude below an edge at which smaller steps gain most
// beyond what more outliers cost, or the edge.
func (s *InputMagnitudes) lowerThreshold(edge float32) float32 {
	n := float64(s.elements())
	gained := func(e float32, more int64) float64 {
		return math.Log2(float64(edge)/float64(e)) - float64(more)/(fractionPerBit*n)
	}
	best, most := edge, minGainBits
	beyond, more := int64(0), int64(0) // the edge, and it is what lies between
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

// scaleWithoutOutliers returns the scale whose rounding and clipping have the smallest mean
// square error together, for inputs whose outliers are dropped, and how many times
// larger that error is than that of rounding with a shadow, in root mean square.
func (s *InputMagnitudes) scaleWithoutOutliers() (scale, loss float32) {
	n := float64(s.elements())
	least := math.Inf(1)
	// What clipping at an edge costs follows from the number, sum and sum of squares
	// of what lies beyond.
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
	shadowed := n * float64(s.Scale) * float64(s.Scale) / 12
	return scale, float32(math.Sqrt(least / shadowed))
}

// Input returns what was found out.
func (s *InputMagnitudes) Input() (w8a8.Input, error) {
	in := w8a8.Input{
		Name: s.Name, Cols: len(s.OutlierCounts), Scale: s.Scale, Max: math.Float32frombits(s.maxBits),
		Elements: s.elements(), Matrices: s.Matrices, Channels: []w8a8.Channel{},
	}
	if math.IsNaN(float64(in.Max)) || math.IsInf(float64(in.Max), 0) {
		return in, fmt.Errorf("%w: the inputs of %s are no finite numbers", arch.ErrModel, s.Name)
	}
	if in.Elements == 0 || in.Scale == 0 {
		return in, fmt.Errorf("%w: the text gives no numbers but zero to %s: calibrate with a longer one", arch.ErrModel, s.Name)
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
