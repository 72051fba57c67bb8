package quant

import (
	"math"
	"slices"
)

// The functions of this file are elementwise. dst may be the same slice as an
// input unless stated otherwise, but must not overlap one in part; all slices
// are at least as long as dst.

// Silu computes dst[i] = x[i] / (1 + Exp32(-x[i])).
func Silu(dst, x []float32 /* [n] */) { active.silu(dst, x[:len(dst)]) }

// SiluMul computes dst[i] = Silu(gate[i]) * up[i]. dst may be gate, not up.
func SiluMul(dst, gate, up []float32 /* [n] */) {
	Silu(dst, gate)
	active.mulBy(dst, up[:len(dst)])
}

// clampedSlope is the steepness of ClampedSiluMul's sigmoid.
const clampedSlope = 1.702

// ClampedSiluMul computes dst[i] = g/(1+Exp32(-1.702·g))·(u+1), where g is gate[i] limited from above and
// u is up[i] limited from both sides. It overwrites gate and up. dst may be gate, not up.
func ClampedSiluMul(dst, gate, up []float32 /* [n] */, limit float32) {
	gate, up = gate[:len(dst)], up[:len(dst)]
	active.clamp(gate, float32(math.Inf(-1)), limit, minusZero, clampedSlope)
	active.clamp(up, -limit, limit, 1, 1/float32(clampedSlope))
	SiluMul(dst, gate, up)
}

// minusZero is -0, for which Go has no literal. Adding it changes no number, not even the sign of a zero.
var minusZero = float32(math.Copysign(0, -1))

// GeluTanh computes the tanh approximation of GELU,
// x/2 * (1 + tanh(√(2/π) * (x + 0.044715x³))), in the equivalent form
// dst = x / (1 + Exp32(-2u)) with 2u = x * (c1 + c3*x²), which loses nothing to
// cancellation for negative x.
func GeluTanh(dst, x []float32 /* [n] */) { active.geluTanh(dst, x[:len(dst)]) }

// GeluTanhMul computes dst[i] = GeluTanh(gate[i]) * up[i]. dst may be gate,
// not up.
func GeluTanhMul(dst, gate, up []float32 /* [n] */) {
	GeluTanh(dst, gate)
	active.mulBy(dst, up[:len(dst)])
}

// GeluErf computes the exact GELU x*Φ(x) = max(x, 0) - |x| * erfc(|x|/√2)/2, in
// which nothing cancels, with
//
//	erfc(|x|/√2)/2 = t*P(t) * Exp32(-x²/2),  t = 1/(1 + 0.35|x|)
//
// and a polynomial P of relative error below 1e-7.
func GeluErf(dst, x []float32 /* [n] */) { active.geluErf(dst, x[:len(dst)]) }

// GeluErfMul computes dst[i] = GeluErf(gate[i]) * up[i]. dst may be gate, not
// up.
func GeluErfMul(dst, gate, up []float32 /* [n] */) {
	GeluErf(dst, gate)
	active.mulBy(dst, up[:len(dst)])
}

// SoftCap computes x[i] = limit * Tanh32(x[i]/limit), which keeps scores within
// the limit.
func SoftCap(x []float32 /* [n] */, limit float32) { active.softCap(x, limit) }

// SquaredRelu computes dst[i] = max(x[i], 0)².
func SquaredRelu(dst, x []float32 /* [n] */) {
	copy(dst, x[:len(dst)])
	active.clamp(dst, 0, float32(math.Inf(1)), minusZero, 1)
	active.mulBy(dst, dst)
}

// Sigmoid32 returns 1 / (1 + Exp32(-x)).
func Sigmoid32(x float32) float32 { return 1 / (1 + Exp32(-x)) }

// SigmoidMul computes dst[i] *= Sigmoid32(x[i]). It overwrites x, which is not dst.
func SigmoidMul(dst, x []float32 /* [n] */) {
	x = x[:len(dst)]
	active.sigmoid(x, x)
	active.mulBy(dst, x)
}

// Scale computes dst[i] *= s.
func Scale(dst []float32 /* [n] */, s float32) { active.scale(dst, s) }

// Add computes dst[i] += a[i].
func Add(dst, a []float32 /* [n] */) { active.add(dst, a[:len(dst)]) }

// Mul computes dst[i] *= a[i].
func Mul(dst, a []float32 /* [n] */) { active.mulBy(dst, a[:len(dst)]) }

// AddScaled computes dst[i] = float32(a[i]*s) + dst[i], unfused on every path.
func AddScaled(dst, a []float32 /* [n] */, s float32) { active.addScaled(dst, a[:len(dst)], s) }

// AddProduct computes dst[i] = float32(a[i]*b[i]) + dst[i], unfused on every path.
func AddProduct(dst, a, b []float32 /* [n] */) {
	active.addProduct(dst, a[:len(dst)], b[:len(dst)])
}

// The argument of GeluTanh's exponential: 2√(2/π) and 0.044715 times that.
const (
	gelu1 = 1.5957691216057308
	gelu3 = 0.044715 * gelu1
)

// The constants of GeluErf: the polynomial interpolates at Chebyshev nodes of
// the t of |x| < 13.3, beyond which the exponential is zero.
const (
	erfSlope = 0.35

	erf0 = 0.13961902260780334
	erf1 = 0.13990597426891327
	erf2 = 0.11949814110994339
	erf3 = 0.10687646269798279
	erf4 = -0.026422694325447083
	erf5 = 0.1640634983778
	erf6 = -0.26003289222717285
	erf7 = 0.14606903493404388
	erf8 = -0.02957654371857643
)

func (portable) add(dst, a []float32 /* [n] */) {
	for i, v := range a {
		dst[i] += v
	}
}

func (portable) mulBy(dst, a []float32 /* [n] */) {
	for i, v := range a {
		dst[i] *= v
	}
}

func (portable) scale(dst []float32 /* [n] */, s float32) {
	for i := range dst {
		dst[i] *= s
	}
}

func (portable) addScaled(dst, a []float32 /* [n] */, s float32) {
	for i, v := range a {
		dst[i] += float32(v * s)
	}
}

func (portable) addProduct(dst, a, b []float32 /* [n] */) {
	for i, v := range a {
		dst[i] += float32(v * b[i])
	}
}

func (portable) clamp(x []float32 /* [n] */, low, high, offset, factor float32) {
	for i, v := range x {
		x[i] = (min(max(v, low), high) + offset) * factor
	}
}

func (k portable) sigmoid(dst, x []float32 /* [n] */) {
	for i, v := range x {
		dst[i] = 1 / (1 + k.ar.exp(-v))
	}
}

func (k portable) silu(dst, x []float32 /* [n] */) {
	for i, v := range x {
		dst[i] = v / (1 + k.ar.exp(-v))
	}
}

func (k portable) geluTanh(dst, x []float32 /* [n] */) {
	for i, v := range x {
		z := v * k.ar.mulAdd(gelu3, v*v, gelu1)
		dst[i] = v / (1 + k.ar.exp(-z))
	}
}

func (k portable) softCap(x []float32 /* [n] */, limit float32) {
	for i, v := range x {
		x[i] = limit * k.ar.tanh(v/limit)
	}
}

func (k portable) geluErf(dst, x []float32 /* [n] */) {
	coefficients := [...]float32{erf7, erf6, erf5, erf4, erf3, erf2, erf1, erf0}
	for i, v := range x {
		size := float32(math.Abs(float64(v)))
		t := 1 / k.ar.mulAdd(erfSlope, size, 1)
		p := float32(erf8)
		for _, c := range coefficients {
			p = k.ar.mulAdd(p, t, c)
		}
		tail := p * t * k.ar.exp(v*v*-0.5)
		positive := float32(0)
		if v > 0 {
			positive = v
		}
		dst[i] = k.ar.mulAdd(-size, tail, positive)
	}
}

// argMaxBlock is the number of elements in a block of ArgMax, which scans the block
// with the maximum twice: larger blocks make the second scan longer, smaller blocks
// make more calls.
const argMaxBlock = 1024

// ArgMax returns the index of the greatest element, the first among equals. NaNs do
// not count; it is -1 if nothing is above -Inf.
func ArgMax(x []float32 /* [n] */) int {
	at, top := -1, float32(math.Inf(-1))
	for begin := 0; begin < len(x); begin += argMaxBlock {
		if m := active.maxOf(x[begin:min(begin+argMaxBlock, len(x))]); m > top {
			at, top = begin, m
		}
	}
	if at < 0 {
		return -1
	}
	return at + slices.Index(x[at:], top)
}

// AllFinite reports whether no element is an infinity or a NaN.
func AllFinite(x []float32 /* [n] */) bool { return active.largestBits(x) < infinityBits }

// infinityBits are those of an infinity without its sign. NaNs have more.
const infinityBits = 0x7F800000

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
