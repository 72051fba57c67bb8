package quant

import (
	"math"
)

// The constants of Exp32. The reduction constant is split so that the
// product of its first part and any exponent is exact, and the polynomial
// (exp(r)-1-r)/r² is the interpolation at Chebyshev nodes of |r| <= ln(2)/2.
const (
	expMin = -87.3       // below, Exp32 is zero: the result would be subnormal
	expMax = 88.72283    // above, it overflows
	log2E  = 1.44269504  // 1/ln 2
	ln2Hi  = 0.693359375 // 9 bits
	ln2Lo  = -2.12194440e-4
	// roundMagic is 1.5*2^23: adding it to a small number rounds that to an
	// integer, which then stands in the low bits.
	roundMagic = 12582912

	exp2 = 0.5
	exp3 = 0.16666576266288757
	exp4 = 0.04166655242443085
	exp5 = 0.008363292552530766
	exp6 = 0.0013926326064392924
)

// Exp32 returns e^x within 2 ulp. It is zero below -87.3, where the result
// would be subnormal, and +Inf above 88.72283. The sequence of operations is
// fixed, and the vector functions of this package use the same.
//
// A table of the exponentials of all binary16 numbers that are not positive was
// compared with it, on a Xeon with AVX-512 (family 6, model 167), the best of 60
// runs for a block of 64 scores. Gathering from the table with AVX-512 took 35.2
// ns for scores that differ from block to block, the polynomial 35.7. The table
// is off by up to 1.8e-4, the polynomial by 1.2e-7, and takes 128 KiB of cache
// that keys and values want: so the polynomial it is. In plain Go the table took
// 150 ns and the polynomial 303 (BenchmarkExp, with LLMRUN_CPU=portable), where
// the block's scores take 6 µs: too little to have tokens depend on the build.
func Exp32(x float32) float32 { return active.exp(x) }

func (k portable) exp(x float32) float32 { return k.ar.exp(x) }

func (ar arith) exp(x float32) float32 {
	switch {
	case x < expMin:
		return 0
	case x > expMax:
		return float32(math.Inf(1))
	case x != x:
		return x
	}
	// x = k*ln 2 + r with an integer k.
	rounded := ar.mulAdd(x, log2E, roundMagic)
	k := rounded - roundMagic
	r := ar.mulAdd(k, -ln2Hi, x)
	r = ar.mulAdd(k, -ln2Lo, r)
	p := ar.mulAdd(exp6, r, exp5)
	p = ar.mulAdd(p, r, exp4)
	p = ar.mulAdd(p, r, exp3)
	p = ar.mulAdd(p, r, exp2)
	p = ar.mulAdd(p, r, 1)
	p = ar.mulAdd(p, r, 1)
	// Multiply by 2^k in the exponent field; the limits above keep it valid.
	// The low bits of rounded are k, and shifting drops those above.
	return math.Float32frombits(math.Float32bits(p) + math.Float32bits(rounded)<<23)
}

// The constants of Tanh32: where it changes from the polynomial to the
// exponential, and the polynomial P in tanh x = x + x³P(x²).
const (
	tanhSplit = 0.625

	tanh3  = -0.3333333432674408
	tanh5  = 0.13333304226398468
	tanh7  = -0.053959257900714874
	tanh9  = 0.02176891826093197
	tanh11 = -0.00834394246339798
	tanh13 = 0.002292742021381855
)

// Tanh32 returns the hyperbolic tangent of x within 2 ulp.
func Tanh32(x float32) float32 { return active.flavour().tanh(x) }

func (ar arith) tanh(x float32) float32 {
	size := float32(math.Abs(float64(x)))
	var y float32
	if size < tanhSplit {
		square := size * size
		p := ar.mulAdd(tanh13, square, tanh11)
		p = ar.mulAdd(p, square, tanh9)
		p = ar.mulAdd(p, square, tanh7)
		p = ar.mulAdd(p, square, tanh5)
		p = ar.mulAdd(p, square, tanh3)
		y = ar.mulAdd(p*square, size, size)
	} else {
		y = 1 - 2/(ar.exp(size+size)+1)
	}
	return float32(math.Copysign(float64(y), float64(x)))
}

func (k portable) maxOf(p []float32 /* [n] */) float32 {
	largest := float32(math.Inf(-1))
	for _, v := range p {
		if v > largest {
			largest = v
		}
	}
	return largest
}

func (k portable) expSum(p []float32 /* [n] */, shift float32) float32 {
	var lane [lanes]float32
	for i, v := range p {
		p[i] = k.ar.exp(v - shift)
		lane[i%lanes] += p[i]
	}
	return addLanes(&lane)
}

// SoftmaxBlock replaces the scores p[:n] by Exp32(p[i]-max), where max is
// their maximum, and returns max and the sum of the results (16 lanes by
// index, then the tree). Masked entries are -Inf and become 0; when all are
// masked, max is -Inf and sum 0. A NaN among the scores makes sum a NaN.
func SoftmaxBlock(p []float32 /* [n] */, n int) (max, sum float32) {
	p = p[:n]
	max = active.maxOf(p)
	if math.IsInf(float64(max), -1) {
		// All are masked, or NaN: a shift of zero keeps the latter.
		return max, active.expSum(p, 0)
	}
	return max, active.expSum(p, max)
}

// logTerms are the coefficients of atanh(s)/s as a polynomial of s², for s up to 1/3.
var logTerms = [...]float64{
	1, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23, 1.0 / 25, 1.0 / 27, 1.0 / 29,
	1.0 / 31,
}

// Log1p returns ln(1+x) of a finite x that is not negative, within a few units of the last place. All processors compute
// the same bits, unlike with math.Log1p, whose products and sums the compiler may fuse: the conversions below forbid it.
func Log1p(x float64) float64 {
	doublings := 0.0
	if x > 1 {
		half, exponent := math.Frexp(1 + x)
		x, doublings = 2*half-1, float64(exponent-1)
	}
	s := x / (2 + x) // ln(1+x) = 2·atanh(s)
	square, sum := float64(s*s), 0.0
	for i := len(logTerms) - 1; i >= 0; i-- {
		sum = float64(sum*square) + logTerms[i]
	}
	return float64(2*s*sum) + float64(doublings*math.Ln2)
}
