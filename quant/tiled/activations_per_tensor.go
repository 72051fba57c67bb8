package tiled

import "math"

// SetPerTensor rounds the activations of one token with a scale that is given, the
// same for all of its groups, as devices do that multiply in integers throughout.
// What is beyond 127 times the scale becomes that. An element that is no finite
// number makes the scale of its group so, and with it every result.
//
// Kernels sum the groups in float32 like those of other activations. SetPerTensor
// returns the bits of the largest magnitude; those of NaNs are largest.
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

// roundClamped rounds to the nearest integer, halves to even, within ±127.
func roundClamped(v float32) int8 {
	// The sum has its last bit at the ones, and rounds as float32 does.
	const magic = 0x1.8p23
	return int8(int32(math.Float32bits(min(max(v, -127), 127)+magic)) - int32(math.Float32bits(magic)))
}
