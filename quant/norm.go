package quant

import "math"

// SumSquares returns Dot(x, x).
func SumSquares(x []float32 /* [n] */) float32 { return Dot(x, x) }

// RMSNorm computes dst[i] = float32(x[i]*inv) * (weightOffset + weight[i]) with
// inv = 1/sqrt(SumSquares(x)/n + eps), every operation rounded to float32.
// weightOffset is 1 for weights stored as differences from one (Gemma's, in
// safetensors), otherwise 0. dst may be x.
func RMSNorm(dst, x, weight []float32 /* [n] */, eps, weightOffset float32) {
	x, weight = x[:len(dst)], weight[:len(dst)]
	inv := inverseRoot(SumSquares(x)/float32(len(x)) + eps)
	active.norm(dst, x, weight, inv, weightOffset)
}

func (portable) norm(dst, x, weight []float32 /* [n] */, scale, offset float32) {
	for i, v := range x {
		dst[i] = float32(v*scale) * (offset + weight[i])
	}
}

// LayerNorm computes dst[i] = float32((x[i]-mean)*inv*weight[i]) + bias[i] from
// left to right, with mean = sum(x)/n (the sum in 16 lanes, as in Dot) and
// inv = 1/sqrt(SumSquares(x-mean)/n + eps). bias may be nil. dst may be x.
func LayerNorm(dst, x, weight, bias []float32 /* [n] */, eps float32) {
	x, weight = x[:len(dst)], weight[:len(dst)]
	mean := sumLanes(x) / float32(len(x))
	for i, v := range x {
		dst[i] = v - mean
	}
	inv := inverseRoot(SumSquares(dst)/float32(len(dst)) + eps)
	for i, w := range weight {
		dst[i] = float32(dst[i]*inv) * w
	}
	if bias != nil {
		Add(dst, bias)
	}
}

// sumLanes adds x in 16 lanes by index and then by the tree.
func sumLanes(x []float32 /* [n] */) float32 {
	var lane [lanes]float32
	for i, v := range x {
		lane[i%lanes] += v
	}
	return addLanes(&lane)
}

// inverseRoot returns 1/sqrt(x), both operations rounded to float32. (The
// root of a float32 taken in float64 rounds to the correct float32.)
func inverseRoot(x float32) float32 { return 1 / float32(math.Sqrt(float64(x))) }
