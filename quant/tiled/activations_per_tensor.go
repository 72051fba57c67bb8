package tiled

import "math"

// SetPerTensor quantizes the activations of one token with the given scale for all
// groups, as W8A8 devices do. Codes saturate at ±127. If an element is infinite or
// NaN, so are the scale of its group and all results.
//
// Matmul kernels process the activations like those of Set. SetPerTensor returns the
// float32 bits of the largest magnitude in x, in an order where NaNs are largest.
func (a *Activations) SetPerTensor(token int, x []float32 /* [cols] */, scale float32) (most uint32) {
	if a.cols == 0 {
		return 0
	}
	args := a.quantizeArgs(active, token)
	inverse := 1 / scale
	var codes [GroupElems]int8
	for g := range args.groups {
		group := x[g*GroupElems:][:GroupElems]
		var bits uint32
		for i, v := range group {
			bits = max(bits, math.Float32bits(v)&^signMask)
			codes[i] = roundClamped(float32(v * inverse))
		}
		s := scale
		if bits >= infBits {
			s = math.Float32frombits(bits)
		}
		args.put(g, &codes, s)
		most = max(most, bits)
	}
	return most
}

// roundClamped clamps v to ±127 and rounds it to the nearest integer, ties to even.
func roundClamped(v float32) int8 {
	// The unit in the last place of v+magic is 1, so the addition rounds to integers.
	const magic = 0x1.8p23
	return int8(int32(math.Float32bits(min(max(v, -127), 127)+magic)) - int32(math.Float32bits(magic)))
}
