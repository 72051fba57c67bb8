package exec

// convChannels is the number of channels of a convolution that one part computes.
const convChannels = 128

// convolve computes some channels of all rows. The input projection has already read h, so the
// result overwrites it.
func (p *pass) convolve(part, _ int) {
	lo, hi := part*convChannels, min((part+1)*convChannels, p.m.Spec.Dim)
	for _, r := range p.batch.runs {
		for c := lo; c < hi; c++ {
			p.convolveChannel(r, c)
		}
	}
}

// convolveChannel convolves one channel of one sequence's rows. The sequence holds the last
// taps-1 products B·x, oldest first.
func (p *pass) convolveChannel(r run, c int) {
	dim, taps := p.m.Spec.Dim, p.m.Spec.ConvTaps
	old, next := r.seq.conv[p.index], r.seq.convNext[p.index]
	// product returns B·x of token t of the run. A negative t is a token before the run.
	product := func(t int) float32 {
		if t < 0 {
			return old[(taps-1+t)*dim+c]
		}
		bcx := p.conv[(r.row+t)*3*dim:]
		return bcx[c] * bcx[2*dim+c]
	}
	kernel := p.w.Conv[c*taps : (c+1)*taps]
	for t := range r.count {
		var sum float32
		for i, w := range kernel {
			sum += float32(w * product(t-(taps-1)+i))
		}
		if p.w.ConvBias != nil {
			sum += p.w.ConvBias[c]
		}
		gate := p.conv[(r.row+t)*3*dim+dim+c]
		p.h[(r.row+t)*dim+c] = float32(gate * sum)
	}
	for i := range taps - 1 {
		next[i*dim+c] = product(r.count - (taps - 1) + i)
	}
}
