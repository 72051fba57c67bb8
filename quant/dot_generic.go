package quant

// lanes is the number of partial sums of every reduction.
const lanes = 16

// addLanes adds the partial sums in the order of the contract's tree.
func addLanes(lane *[lanes]float32) float32 {
	for width := lanes / 2; width > 0; width /= 2 {
		for i := range width {
			lane[i] += lane[i+width]
		}
	}
	return lane[0]
}

func (k portable) dot(a, b []float32 /* [n] */) float32 {
	if k.ar == fused {
		return dotFused(a, b)
	}
	return dotUnfused(a, b)
}

// dotFused is the definition of Dot, the oracle of the SIMD kernels.
func dotFused(a, b []float32 /* [n] */) float32 {
	var lane [lanes]float32
	for i := range a {
		lane[i%lanes] = fma32(a[i], b[i], lane[i%lanes])
	}
	return addLanes(&lane)
}

// dotUnfused computes the same in the unfused flavour. The lanes are taken in
// two passes of eight, so that the sums stay in registers.
func dotUnfused(a, b []float32 /* [n] */) float32 {
	var lane [lanes]float32
	whole := len(a) / lanes * lanes
	b = b[:len(a)]
	eightLanes((*[8]float32)(lane[:8]), a[:whole], b[:whole])
	if whole > 0 {
		eightLanes((*[8]float32)(lane[8:]), a[8:whole], b[8:whole])
	}
	for i, v := range a[whole:] {
		lane[i] += float32(v * b[whole+i])
	}
	return addLanes(&lane)
}

// eightLanes computes eight neighbouring lanes, of which a and b start with
// the first element.
func eightLanes(lane *[8]float32, a, b []float32) {
	var s0, s1, s2, s3, s4, s5, s6, s7 float32
	for len(a) >= 8 && len(b) >= 8 {
		s0 += float32(a[0] * b[0])
		s1 += float32(a[1] * b[1])
		s2 += float32(a[2] * b[2])
		s3 += float32(a[3] * b[3])
		s4 += float32(a[4] * b[4])
		s5 += float32(a[5] * b[5])
		s6 += float32(a[6] * b[6])
		s7 += float32(a[7] * b[7])
		if len(a) < lanes || len(b) < lanes {
			break
		}
		a, b = a[lanes:], b[lanes:]
	}
	*lane = [8]float32{s0, s1, s2, s3, s4, s5, s6, s7}
}

func (k portable) mulF32(y []float32, yStride int, w []float32, wStride, rows, cols int, x []float32, xStride, n int) {
	for r := range rows {
		row := w[r*wStride:][:cols]
		for b := range n {
			y[b*yStride+r] = k.dot(row, x[b*xStride:][:cols])
		}
	}
}

func (k portable) weightedSum(o []float32, oStride int, p []float32, pStride int, v []float32, vStride, tokens, d, n int) {
	for i := range n {
		out := o[i*oStride:][:d]
		for j, weight := range p[i*pStride:][:tokens] {
			value := v[j*vStride:][:d]
			if k.ar == fused {
				for c, x := range value {
					out[c] = fma32(weight, x, out[c])
				}
				continue
			}
			for c, x := range value {
				out[c] += float32(weight * x)
			}
		}
	}
}
