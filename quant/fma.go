package quant

import "math"

// arith is the flavour of multiply-add that a kernel computes with. The two
// differ in the last bits of a result, never in the order of operations.
type arith bool

const (
	// unfused rounds the product and then the sum. It runs where no SIMD
	// kernel does: scalar code has no fast exact fma on every platform.
	unfused arith = false
	// fused rounds once, as the FMA instructions of the SIMD kernels do.
	fused arith = true
)

// mulAdd returns a*b+c. The conversion keeps the compiler from fusing the
// unfused flavour, which it would do on arm64.
func (ar arith) mulAdd(a, b, c float32) float32 {
	if ar == fused {
		return fma32(a, b, c)
	}
	return float32(a*b) + c
}

// fma32 returns a*b+c rounded once to float32. In float64 the product is exact
// and the sum nearly so; rounding that sum again is wrong only where it fell
// on the midpoint of two float32 values or into the subnormal range, and there
// the sum is first rounded to odd, which makes the second rounding harmless.
func fma32(a, b, c float32) float32 {
	product := float64(a) * float64(b)
	sum := product + float64(c)
	const droppedBits, midpoint = 1<<29 - 1, 1 << 28
	bits := math.Float64bits(sum)
	if bits&droppedBits != midpoint && math.Abs(sum) >= 0x1p-126 {
		return float32(sum)
	}
	return float32(roundToOdd(product, float64(c), sum))
}

// roundToOdd returns a+b, of which sum is the value rounded to nearest,
// rounded instead to the neighbour with an odd last bit unless sum is exact.
func roundToOdd(a, b, sum float64) float64 {
	bPart := sum - a
	lost := (a - (sum - bPart)) + (b - bPart) // exactly a+b-sum (two-sum)
	bits := math.Float64bits(sum)
	if lost == 0 || lost != lost || bits&1 == 1 {
		return sum
	}
	if (lost > 0) == (sum > 0) {
		return math.Float64frombits(bits + 1)
	}
	return math.Float64frombits(bits - 1)
}

// FMA32 returns a*b+c rounded once, on every machine. It is what a kernel's
// portable twin uses that must agree with instructions bit for bit.
func FMA32(a, b, c float32) float32 { return fma32(a, b, c) }
