package arch

// Recurrence describes the mixers that keep a matrix for each head: gated delta nets and Mamba-2. Each convolves some
// channels, which give keys, queries and values, and advances the matrices by them; see package recurrent.
type Recurrence struct {
	Taps   int // of the convolution
	Heads  int
	Groups int // heads of a group share keys and queries
	Key    int // elements of a key: rows of a head's matrix
	Value  int // elements of a value: columns
	// Delta: a value is stored as its difference to what its key already gives, and keys and queries are normalized.
	Delta bool
	// InTurn: head h is one of group h mod Groups, else the heads of a group are neighbours.
	InTurn bool
	// LogDecay: the file has the logarithms of the decay rates.
	LogDecay bool
	// NormGroups is the number of parts of the output that are normalized separately; 0: it is not normalized.
	NormGroups int
	// InScales multiply the projections to the gate, the values, the keys, the queries and the steps; OutScale multiplies the
	// result. 0 means 1.
	InScales [5]float32
	OutScale float32
	// NormFirst: the output is normalized before it is gated.
	NormFirst bool
}

// Inner returns the elements of all heads' values.
func (r *Recurrence) Inner() int { return r.Heads * r.Value }

// keys returns the elements of all groups' keys.
func (r *Recurrence) keys() int { return r.Groups * r.Key }

// Channels returns the channels of the convolution: queries, keys and values of a delta net; values, keys and queries
// of Mamba-2, which calls them x, B and C.
func (r *Recurrence) Channels() int { return r.Inner() + 2*r.keys() }

// group returns the group of a head.
func (r *Recurrence) group(head int) int {
	if r.InTurn {
		return head % r.Groups
	}
	return head / (r.Heads / r.Groups)
}

// KeyOf returns the key of a head in the channels of a token.
func (r *Recurrence) KeyOf(channels []float32, head int) []float32 {
	at := r.Inner()
	if r.Delta {
		at = r.keys()
	}
	return channels[at+r.group(head)*r.Key:][:r.Key]
}

// QueryOf returns the query of a head in the channels of a token.
func (r *Recurrence) QueryOf(channels []float32, head int) []float32 {
	at := r.Inner() + r.keys()
	if r.Delta {
		at = 0
	}
	return channels[at+r.group(head)*r.Key:][:r.Key]
}

// ValueOf returns the value of a head in the channels of a token.
func (r *Recurrence) ValueOf(channels []float32, head int) []float32 {
	at := 0
	if r.Delta {
		at = 2 * r.keys()
	}
	return channels[at+head*r.Value:][:r.Value]
}

// validate checks the sizes of the layers with matrices, if there are any.
func (r *Recurrence) validate(h *Hyper, layers []LayerSpec) error {
	for l := range layers {
		if !layers[l].Mixer.Recurs() {
			continue
		}
		for _, c := range []struct {
			key keyName
			v   int
			max int
		}{
			{keyConvKernel, r.Taps, 64},
			{keyStateHeads, r.Heads, maxHeads},
			{keyStateGroups, r.Groups, maxHeads},
			{keyStateSize, r.Key, 1 << 13},
			{keyName{"ssm.inner_size", "head size of the state"}, r.Value, 1 << 13},
		} {
			if c.v < 1 || c.v > c.max {
				return h.FieldError(c.key, "%d is outside 1…%d", c.v, c.max)
			}
		}
		if r.Heads%r.Groups != 0 || r.NormGroups > 0 && r.Inner()%r.NormGroups != 0 {
			return h.FieldError(keyStateGroups, "%d do not divide %d heads of %d elements", r.Groups, r.Heads, r.Value)
		}
		return nil
	}
	return nil
}

// Recurs reports whether the mixer has matrices that every token changes.
func (m Mixer) Recurs() bool { return m == Recurrent || m == AttentionAndRecurrent }

// Attends reports whether the mixer has keys and values of every token.
func (m Mixer) Attends() bool { return m == Attention || m == AttentionAndRecurrent }

// HasState reports whether any layer keeps more than keys and values.
func (s *Spec) HasState() bool {
	for l := range s.Layers {
		if m := s.Layers[l].Mixer; m == ShortConv || m.Recurs() {
			return true
		}
	}
	return false
}
