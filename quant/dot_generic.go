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
