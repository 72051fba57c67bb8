package exec

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/llmrun/llmrun/store/w8a8"
)

// OutlierOptions are the choices for MeasureOutliers.
type OutlierOptions struct {
	Made string // program and version, for the calibration to say who made it
	// Share is the part of an input's elements that may lie beyond its scale, and
	// then go through the shadow. 0 means defaultOutlierShare, or more where
	// many elements lie far beyond all others.
	Share    float64
	Progress func(done, total int64) // tokens; each may be read twice
}

// defaultOutlierShare returns the part of an input's elements that may lie beyond
// its scale. Of models of 1 to 7 billion weights it was published that outliers are
// in 0.1 to 0.3 % of the channels, 5 to 15 of them; narrow inputs have room for as
// many channels as fixed ones that always exceed.
func defaultOutlierShare(cols int) float64 { return max(0.003, 4/float64(cols)) }

const (
	// More may lie beyond where a bit is gained for each bitShare of the elements, and
	// then leastGain bits more: where more channels exceed all others than was
	// published. Tails that only thin out gain less.
	bitShare  = 0.02
	leastGain = 0.5
	// mostOutliers is the largest part that does: beyond it floats take long.
	mostOutliers = 0.1
)

const (
	// Channels are hot until they have most of the outliers, or are too many to stay
	// in memory for little.
	hotOutliers = 0.8
	hotChannels = 0.03
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

// inputGroups returns the names of matrices, those together that have the same
// input, in the order of use. has says which there are.
func inputGroups(layers int, has func(name string) bool) (groups [][]string) {
	for l := range layers {
		for _, roles := range inputRoles {
			var group []string
			for _, role := range roles {
				if name := tensorName(role, l, ".weight"); has(name) {
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

// matricesByName returns the matrices of layers that a mix may quantize.
func (m *Model) matricesByName() map[string]*linear {
	named := map[string]*linear{}
	for l := range m.weights.layers {
		m.weights.layers[l].each(func(role string, w *linear) {
			if w.present() {
				named[tensorName(role, l, ".weight")] = w
			}
		})
	}
	return named
}

// outlierRoom bounds the memory for what may turn out to lie beyond a scale. Tests
// change it.
var outlierRoom int64 = 256 << 20

// MeasureOutliers reads token ids with the model as it is, for the scales of its inputs
// and what lies beyond them. Only at the end it is known which scale an input has: what
// may be beyond it is remembered meanwhile. The text is read again if it is too long for
// that, or if more lies beyond a scale than was remembered.
func MeasureOutliers(ctx context.Context, f *Files, ids []int32, o Options, how OutlierOptions) (*w8a8.Index, error) {
	if len(ids) == 0 {
		return nil, fmt.Errorf("%w: a text of no tokens to calibrate with", ErrModel)
	}
	identity, err := f.calibrationIdentity()
	if err != nil {
		return nil, err
	}
	m, err := Load(ctx, f, o)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	sizes, order := m.inputSizes()
	reads := int64(1)
	if !remember(order, len(ids), how.Share) {
		reads = 2
	}
	read := func(before int, observe func(*inputSizes, []float32)) error {
		m.pass.observe = func(j *job) {
			if s := sizes[j.w]; s != nil {
				for row := range j.n {
					observe(s, j.row(row))
				}
			}
		}
		return m.readInWindows(ctx, ids, func(done int) {
			if how.Progress != nil {
				how.Progress(int64(before+done), reads*int64(len(ids)))
			}
		})
	}
	if err := read(0, (*inputSizes).measure); err != nil {
		return nil, err
	}
	for _, s := range order {
		if s.choose(how.Share); !s.recall(s.limit, s.beyond) {
			reads = 2
		}
	}
	if reads == 2 {
		if err := read(len(ids), (*inputSizes).count); err != nil {
			return nil, err
		}
	}
	index := &w8a8.Index{Model: identity, Made: how.Made, Tokens: len(ids), OutlierShare: how.Share}
	for _, s := range order {
		in, err := s.input()
		if err != nil {
			return nil, err
		}
		index.Inputs = append(index.Inputs, in)
	}
	return index, nil
}

// inputSizes returns what is to be measured of the model's inputs, by the first
// matrix that reads each, and in the order of use.
func (m *Model) inputSizes() (by map[*linear]*inputSizes, order []*inputSizes) {
	named := m.matricesByName()
	by = map[*linear]*inputSizes{}
	for _, group := range inputGroups(len(m.weights.layers), func(name string) bool { return named[name] != nil }) {
		first := named[group[0]]
		s := &inputSizes{name: group[0], beyond: make([]int64, first.Cols)}
		for _, name := range group {
			s.matrices = append(s.matrices, w8a8.Matrix{Name: name, Rows: named[name].Rows, Type: columnType(named[name].Type).String()})
		}
		by[first], order = s, append(order, s)
	}
	return by, order
}

// inputSizes are the magnitudes that were seen of an input.
type inputSizes struct {
	name     string
	matrices []w8a8.Matrix

	bins   [magnitudeBins]int64
	most   uint32 // bits of the largest
	scale  float32
	limit  uint32  // bits of the largest that is no outlier
	beyond []int64 // [cols] outliers of each channel

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

func magnitude(v float32) uint32 { return math.Float32bits(v) &^ (1 << 31) }

// measure counts the magnitudes of a row.
func (s *inputSizes) measure(x []float32 /* [cols] */) {
	for _, v := range x {
		bits := magnitude(v)
		s.bins[bits>>binShift]++
		s.most = max(s.most, bits)
	}
	s.remember(x, &s.bins)
}

// count counts the outliers of a row by their channels, if they were not remembered.
func (s *inputSizes) count(x []float32 /* [cols] */) {
	if s.recalled {
		return
	}
	for i, v := range x {
		if magnitude(v) > s.limit {
			s.beyond[i]++
		}
	}
}

// elements returns how many were measured.
func (s *inputSizes) elements() (n int64) {
	for _, count := range s.bins {
		n += count
	}
	return n
}

// choose sets the scale beyond which not more than a share of the elements lies; 0
// leaves the share to defaultOutlierShare and to what more outliers gain.
func (s *inputSizes) choose(share float64) {
	edge := s.edgeOf(outliersAllowed(share, len(s.beyond), s.elements()))
	if share == 0 {
		edge = s.belowCliff(edge)
	}
	s.scale = edge / 127
	s.limit = magnitude(limitOf(s.scale))
}

// outliersAllowed returns how many of an input's elements may lie beyond its scale,
// cliffs aside.
func outliersAllowed(share float64, cols int, elements int64) int64 {
	return int64(cmp.Or(share, defaultOutlierShare(cols)) * float64(elements))
}

// edgeOf returns the magnitude beyond which not more than so many elements lie.
func (s *inputSizes) edgeOf(allowed int64) float32 {
	return min(binEdge(topBin(&s.bins, allowed)), math.Float32frombits(s.most))
}

// topBin returns the lowest bin above which no more than allowed elements are.
func topBin(bins *[magnitudeBins]int64, allowed int64) int {
	top := len(bins) - 1
	for above := bins[top]; top > 0 && above <= allowed; above += bins[top] {
		top--
	}
	return top
}

// belowCliff returns the magnitude below an edge at which smaller steps gain most
// beyond what more outliers cost, or the edge.
func (s *inputSizes) belowCliff(edge float32) float32 {
	n := float64(s.elements())
	gained := func(e float32, more int64) float64 {
		return math.Log2(float64(edge)/float64(e)) - float64(more)/(bitShare*n)
	}
	best, most := edge, leastGain
	beyond, more := int64(0), int64(0) // the edge, and it is what lies between
	top := int(magnitude(edge) >> binShift)
	for i := len(s.bins) - 1; i > 0 && float64(beyond+more) <= mostOutliers*n; i-- {
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

// limitOf returns the largest magnitude that a scale can express.
func limitOf(scale float32) float32 { return 127.5 * scale }

// alone returns the scale whose rounding and clipping have the smallest mean
// square error together, for inputs whose outliers are dropped, and how many times
// larger that error is than that of rounding with a shadow, in root mean square.
func (s *inputSizes) alone() (scale, loss float32) {
	n := float64(s.elements())
	least := math.Inf(1)
	// What clipping at an edge costs follows from the number, sum and sum of squares
	// of what lies beyond.
	var count, sum, squares float64
	for i := len(s.bins) - 1; i > 0; i-- {
		edge := float64(min(binEdge(i), math.Float32frombits(s.most)))
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
	shadowed := n * float64(s.scale) * float64(s.scale) / 12
	return scale, float32(math.Sqrt(least / shadowed))
}

// input returns what was found out.
func (s *inputSizes) input() (w8a8.Input, error) {
	in := w8a8.Input{
		Name: s.name, Cols: len(s.beyond), Scale: s.scale, Max: math.Float32frombits(s.most),
		Elements: s.elements(), Matrices: s.matrices, Channels: []w8a8.Channel{},
	}
	if math.IsNaN(float64(in.Max)) || math.IsInf(float64(in.Max), 0) {
		return in, fmt.Errorf("%w: the inputs of %s are no finite numbers", ErrModel, s.name)
	}
	if in.Elements == 0 || in.Scale == 0 {
		return in, fmt.Errorf("%w: the text gives no numbers but zero to %s: calibrate with a longer one", ErrModel, s.name)
	}
	in.Alone, in.Loss = s.alone()
	for channel, count := range s.beyond {
		if count > 0 {
			in.Channels = append(in.Channels, w8a8.Channel{Channel: channel, Count: count})
			in.Outliers += count
		}
	}
	slices.SortStableFunc(in.Channels, func(a, b w8a8.Channel) int { return cmp.Compare(b.Count, a.Count) })
	most := max(1, int(hotChannels*float64(in.Cols)))
	for hot := int64(0); in.Hot < min(most, len(in.Channels)) && float64(hot) < hotOutliers*float64(in.Outliers); in.Hot++ {
		hot += in.Channels[in.Hot].Count
	}
	return in, nil
}
